"""The folder of a report: all or nothing, and nobody else's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from piaa.errors import InputError
from piaa.report.folder import MARKER, check_target, outside_reports, report_folder


def write(out: Path, text: str, *, force: bool = False) -> None:
    with report_folder(out, force=force) as folder:
        (folder / "index.html").write_text(text)


def test_it_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report"
    with report_folder(out, force=False) as folder:
        (folder / "index.html").write_text("one")
        assert not out.exists()
    assert sorted(p.name for p in out.iterdir()) == ["index.html", MARKER]
    assert [p.name for p in out.parent.iterdir()] == ["report"]


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt()])
def test_nothing_is_left_of_one_that_failed(tmp_path: Path, error: BaseException) -> None:
    def fail() -> None:
        with report_folder(tmp_path / "report", force=False) as folder:
            (folder / "index.html").write_text("one")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"cannot be written.*No space"),
        report_folder(tmp_path / "report", force=False),
    ):
        raise OSError(28, "No space left on device")


def test_an_earlier_report_is_replaced_only_with_force(tmp_path: Path) -> None:
    out = tmp_path / "report"
    write(out, "one")
    with pytest.raises(InputError, match=r"exists already.*--force"):
        write(out, "two")
    assert (out / "index.html").read_text() == "one"
    write(out, "two", force=True)
    assert (out / "index.html").read_text() == "two"
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_a_failure_leaves_the_earlier_report(tmp_path: Path) -> None:
    out = tmp_path / "report"
    write(out, "one")
    with pytest.raises(RuntimeError), report_folder(out, force=True):
        raise RuntimeError
    assert (out / "index.html").read_text() == "one"
    assert [p.name for p in tmp_path.iterdir()] == ["report"]


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    out = tmp_path / "report"
    out.mkdir()
    write(out, "one")
    assert (out / "index.html").read_text() == "one"


def test_folders_of_others_are_never_replaced(tmp_path: Path) -> None:
    out = tmp_path / "photos"
    out.mkdir()
    (out / "index.html").write_text("mine")
    with pytest.raises(InputError, match="not made by piaa report"):
        check_target(out, force=True)
    (out / MARKER).write_text("[]")
    with pytest.raises(InputError, match="not made by piaa report"):
        check_target(out, force=True)


@pytest.mark.parametrize("name", ["notes.txt", "photos/mine.jpg", "more/a.jpg", "data/index.html"])
def test_files_that_were_added_are_never_deleted(tmp_path: Path, name: str) -> None:
    out = tmp_path / "report"
    write(out, "one")
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text("mine")
    with pytest.raises(InputError, match="piaa did not write"):
        write(out, "two", force=True)
    assert (out / name).read_text() == "mine"


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, "one")
    (tmp_path / "link").symlink_to(other)
    (tmp_path / "file").write_text("x")
    for name in ("link", "file"):
        with pytest.raises(InputError, match="is a file or a link"):
            check_target(tmp_path / name, force=True)
    (other / "thumbs").symlink_to(tmp_path)
    with pytest.raises(InputError, match="'thumbs', which piaa did not write"):
        check_target(other, force=True)


def test_copies_in_a_report_are_no_photographs(tmp_path: Path) -> None:
    write(tmp_path / "report", "one")
    copy, photo = tmp_path / "report" / "photos" / "000001.jpg", tmp_path / "a.jpg"
    assert outside_reports([copy, photo]) == [photo]
    with pytest.raises(InputError, match="All 1 photographs are copies"):
        outside_reports([copy])
    shutil.rmtree(tmp_path / "report")
    assert outside_reports([copy]) == [copy]
