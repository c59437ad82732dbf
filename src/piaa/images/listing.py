"""The pictures in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from piaa.errors import InputError
from piaa.images.formats import SUFFIXES


def list_images(
    folder: str | os.PathLike[str],
    *,
    recursive: bool = True,
    on_error: Callable[[Path, str], None] | None = None,
) -> list[Path]:
    """Paths of the pictures in a folder, sorted; told by their suffix, whatever its case.

    Hidden files and folders (a leading dot) are skipped. Links to folders are followed, but not
    back to a folder that they are in, and each folder is listed once however many links lead to it.

    Args:
        on_error: without it a folder that cannot be read raises an InputError. With it such a
            folder is left out and on_error(folder, reason) is called; also for a link back.

    Raises:
        InputError: the folder does not exist, cannot be read, or holds no picture.
    """
    root = Path(folder)
    if not root.is_dir():
        state = "is a file, not a folder" if root.exists() else "does not exist"
        raise InputError(f"The folder {str(root)!r} {state}. Give a folder of pictures.")
    found: list[Path] = []
    n_files = 0
    seen: dict[tuple[int, int], str] = {}
    above = set(_above(root))
    unread = 0

    def unreadable(error: OSError) -> None:
        nonlocal unread
        if on_error is None:
            _refuse(error)
        else:
            unread += 1
            on_error(Path(error.filename), f"the folder cannot be read ({error.strerror})")

    for current, folders, files in os.walk(root, followlinks=True, onerror=unreadable):
        here = _identity(Path(current))
        first = Path(seen.setdefault(here, current))
        if here in above or first != Path(current):
            if on_error is not None and (here in above or Path(current).is_relative_to(first)):
                on_error(Path(current), "it is a link back to a folder that it is in")
            folders.clear()
            continue
        n_files += len(files)
        found += (
            Path(current, name)
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        )
        # In place: this is how os.walk is told where to go next, and in which order.
        folders[:] = sorted(n for n in folders if recursive and not n.startswith("."))
    if not found and not unread:
        below = "and below it " if recursive else ""
        raise InputError(
            f"The folder {str(root)!r} holds no picture: none of the {n_files} files in it {below}"
            f"ends in {', '.join(sorted(SUFFIXES))}. Give another folder"
            + ("." if recursive else ", or list with recursive=True.")
        )
    return sorted(found)


def _identity(folder: Path) -> tuple[int, int]:
    """What a folder has in common with every link to it."""
    status = folder.stat()
    return status.st_dev, status.st_ino


def _above(folder: Path) -> Iterator[tuple[int, int]]:
    for parent in folder.resolve().parents:
        with suppress(
            PermissionError
        ):  # one that may not be looked at may not be walked into either
            yield _identity(parent)


def _refuse(error: OSError) -> NoReturn:
    raise InputError(
        f"The folder {str(error.filename)!r} cannot be read ({error.strerror}). "
        "Allow this user to read it, or move it out of the way."
    ) from error
