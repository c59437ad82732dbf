"""Which files PHOTOS mean."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from piaa.cli.failures import Failures
from piaa.cli.sources import find_photos
from piaa.errors import InputError


@pytest.fixture
def tree(own_folder: Path) -> Path:
    """Names only: what is in the files does not matter here."""
    for name in ("a.jpg", "b.PNG", "notes.txt", ".hidden.jpg", "trip/c.jpg", "trip/far/d.webp"):
        path = Path("photos") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    Path("odd[1].jpg").touch()
    Path("list.jpg.txt").touch()
    return Path("photos")


def found(*photos: str) -> list[str]:
    failures = Failures()
    files = [str(path) for path in find_photos(photos, failures)]
    assert not failures.items
    return files


def given(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


ALL = ["photos/a.jpg", "photos/b.PNG", "photos/trip/c.jpg", "photos/trip/far/d.webp"]


@pytest.mark.usefixtures("tree")
class TestFound:
    def test_folders_with_all_below(self) -> None:
        assert found("photos") == ALL

    def test_named_files_count_whatever_they_are_called(self) -> None:
        assert found("photos/notes.txt", "photos/.hidden.jpg") == [
            "photos/notes.txt", "photos/.hidden.jpg",
        ]  # fmt: skip

    def test_patterns(self) -> None:
        assert found("photos/*.jpg") == ["photos/a.jpg"]
        assert found("photos/**/*.jpg") == ["photos/a.jpg", "photos/trip/c.jpg"]
        assert found("phot?s") == ALL
        assert found("photos/*") == [  # as from a shell
            "photos/a.jpg", "photos/b.PNG", "photos/notes.txt",
            "photos/trip/c.jpg", "photos/trip/far/d.webp",
        ]  # fmt: skip

    def test_a_pattern_does_not_bring_back_what_it_left_out(self) -> None:
        assert "photos/trip/far/d.webp" not in found("photos/**/?.[jp]*")

    def test_a_name_that_looks_like_a_pattern(self) -> None:
        assert found("odd[1].jpg") == ["odd[1].jpg"]

    def test_each_file_once_in_the_order_given(self) -> None:
        assert found("photos/trip/../trip/c.jpg", "photos/./trip", "photos/a.jpg") == [
            "photos/trip/../trip/c.jpg", "photos/trip/far/d.webp", "photos/a.jpg",
        ]  # fmt: skip

    @pytest.mark.parametrize("end", [b"\n", b"\0", b"\r\n"])
    def test_a_list_on_standard_input(self, monkeypatch: pytest.MonkeyPatch, end: bytes) -> None:
        given(monkeypatch, end.join([b"photos/a.jpg", b"photos/trip", b""]))
        assert found("-", "odd[1].jpg") == [
            "photos/a.jpg", "photos/trip/c.jpg", "photos/trip/far/d.webp", "odd[1].jpg",
        ]  # fmt: skip

    def test_names_in_a_nul_list_may_hold_line_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("two\nlines.jpg").touch()
        given(monkeypatch, b"two\nlines.jpg\0photos/a.jpg")
        assert found("-") == ["two\nlines.jpg", "photos/a.jpg"]


@pytest.mark.usefixtures("tree")
class TestNotFound:
    @pytest.mark.parametrize(
        ("photos", "message"),
        [
            ([], "Give photos"),
            (["photos", "nowhere"], "no file or folder 'nowhere'"),
            (["photos/*.gif"], "No file matches"),
            (["-", "-"], "only once"),
        ],
    )
    def test_is_an_error(self, photos: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message.replace("*", r"\*")):
            found(*photos)

    def test_an_empty_list(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, b"\n\n")
        with pytest.raises(InputError, match="standard input is empty"):
            found("-")

    def test_a_terminal_is_no_list(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given(monkeypatch, b"")
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
        with pytest.raises(InputError, match="this terminal"):
            found("-")


class TestSkipped:
    def test_a_name_that_is_not_utf8(self, tree: Path) -> None:
        Path(os.fsdecode(b"photos/caf\xe9.jpg")).touch()
        failures = Failures()
        assert len(find_photos(["photos"], failures)) == 4
        assert failures.to_dicts() == [
            {"file": "photos/caf\\xe9.jpg", "reason": "its name is not UTF-8"}
        ]

    @pytest.mark.parametrize("target", [".", "..", "../photos", "trip/../.."])
    def test_a_link_back(self, tree: Path, target: str) -> None:
        (tree / "trip" / "loop").symlink_to(Path("..") / target)
        failures = Failures()
        assert [str(path) for path in find_photos(["photos"], failures)] == ALL
        ((path, reason),) = failures.items
        assert (str(path), "link back" in reason) == ("photos/trip/loop", True)

    def test_a_second_link_to_a_folder_is_no_loss(self, tree: Path) -> None:
        Path("elsewhere").mkdir()
        Path("elsewhere/e.jpg").touch()
        (tree / "one").symlink_to("../elsewhere")
        (tree / "two").symlink_to("../elsewhere")
        assert found("photos") == sorted([*ALL, "photos/one/e.jpg"])

    def test_a_folder_that_may_not_be_read(
        self, tree: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scandir = os.scandir

        def deny(path: str) -> object:
            if str(path).endswith("far"):
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", deny)
        failures = Failures()
        assert [str(path) for path in find_photos(["photos"], failures)] == ALL[:3]
        assert failures.to_dicts() == [
            {
                "file": "photos/trip/far",
                "reason": "the folder cannot be read (Permission denied)",
            }
        ]
        with pytest.raises(InputError, match="photos/trip/far"):
            find_photos(["photos"], Failures(strict=True))
