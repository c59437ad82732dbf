from __future__ import annotations

from pathlib import Path

import pytest

from piaa.errors import InputError
from piaa.images import list_images
from piaa.images.formats import SUFFIXES


@pytest.fixture
def album(tmp_path: Path) -> Path:
    for name in (
        "b.jpg",
        "a.PNG",
        "notes.txt",
        "jpg",
        ".hidden.jpg",
        "._b.jpg",
        "2024/c.Jpeg",
        "2024/summer/d.webp",
        "2024/d.tif",
        ".thumbnails/e.jpg",
        "folder.jpg/f.heic",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def names(paths: list[Path], root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in paths]


def test_recursive(album: Path) -> None:
    assert names(list_images(album), album) == [
        "2024/c.Jpeg",
        "2024/d.tif",
        "2024/summer/d.webp",
        "a.PNG",
        "b.jpg",
        "folder.jpg/f.heic",
    ]


def test_flat(album: Path) -> None:
    assert names(list_images(str(album), recursive=False), album) == ["a.PNG", "b.jpg"]


def test_hidden_root_is_listed_when_asked_for(album: Path) -> None:
    assert names(list_images(album / ".thumbnails"), album) == [".thumbnails/e.jpg"]


def test_link_loops_end_and_linked_folders_are_listed_once(album: Path, tmp_path: Path) -> None:
    before = list_images(album)
    (album / "2024" / "up").symlink_to(album, target_is_directory=True)
    (album / "2024" / "self").symlink_to(album / "2024", target_is_directory=True)
    (album / "z").symlink_to(album / "2024", target_is_directory=True)
    assert list_images(album) == before


def test_links_to_pictures_and_to_folders_elsewhere_are_followed(
    album: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "x.jpg").touch()
    (album / "more").symlink_to(elsewhere, target_is_directory=True)
    (album / "y.jpg").symlink_to(elsewhere / "x.jpg")
    assert {"more/x.jpg", "y.jpg"} <= set(names(list_images(album), album))


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_every_suffix(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a{suffix.upper()}").touch()
    assert len(list_images(tmp_path)) == 1


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.*does not exist"):
        list_images(tmp_path / "nowhere")


def test_file_instead_of_folder(album: Path) -> None:
    with pytest.raises(InputError, match=r"b\.jpg.*is a file"):
        list_images(album / "b.jpg")


def test_no_picture(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match=r"no picture: none of the 1 files.*\.jpg"):
        list_images(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "a.jpg").touch()
    with pytest.raises(InputError, match="recursive=True"):
        list_images(tmp_path, recursive=False)


def test_unreadable_folder_is_not_passed_over(album: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulated: the tests may run as a user to whom nothing is forbidden.
    import os

    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("summer"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=r"summer.*Permission denied"):
        list_images(album)
