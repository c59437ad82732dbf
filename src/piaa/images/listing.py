"""The pictures in a folder."""

from __future__ import annotations

import os
from pathlib import Path

from piaa.errors import InputError
from piaa.images.formats import SUFFIXES


def list_images(folder: str | os.PathLike[str], *, recursive: bool = True) -> list[Path]:
    """Paths of the pictures in a folder, sorted; told by their suffix, whatever its case.

    Hidden files and folders (a leading dot) are skipped. Links to folders are followed, and each
    folder is listed once however many links lead to it.

    Raises:
        InputError: the folder does not exist, cannot be read, or holds no picture.
    """
    root = Path(folder)
    if not root.is_dir():
        state = "is a file, not a folder" if root.exists() else "does not exist"
        raise InputError(f"The folder {str(root)!r} {state}. Give a folder of pictures.")
    found: list[Path] = []
    n_files = 0
    seen: set[tuple[int, int]] = set()
    for current, folders, files in os.walk(root, followlinks=True, onerror=_refuse):
        status = os.stat(current)  # noqa: PTH116 -- os.walk yields strings
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        n_files += len(files)
        found += (
            Path(current, name)
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        )
        # In place: this is how os.walk is told where to go next, and in which order.
        folders[:] = sorted(n for n in folders if recursive and not n.startswith("."))
    if not found:
        below = "and below it " if recursive else ""
        raise InputError(
            f"The folder {str(root)!r} holds no picture: none of the {n_files} files in it {below}"
            f"ends in {', '.join(sorted(SUFFIXES))}. Give another folder"
            + ("." if recursive else ", or list with recursive=True.")
        )
    return sorted(found)


def _refuse(error: OSError) -> None:
    raise InputError(
        f"The folder {str(error.filename)!r} cannot be read ({error.strerror}). "
        "Allow this user to read it, or move it out of the way."
    ) from error
