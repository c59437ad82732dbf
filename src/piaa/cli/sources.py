"""PHOTOS on the command line -> the files they mean."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from piaa.cli.failures import Failures, shown
from piaa.errors import InputError

PhotosArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="PHOTOS...",
        help="Folders (with all below them), files, patterns such as 'trip/**/*.jpg', or - for a "
        "list of files on standard input, one a line or separated by NUL.",
        show_default=False,
    ),
]


def find_photos(photos: Sequence[str], failures: Failures) -> list[Path]:
    """The files that PHOTOS mean, in order, each once.

    In folders pictures are told by their suffix; a file that is named counts whatever its name
    is. What cannot be used goes to `failures`: folders that cannot be read or lead back to
    themselves, names that are not UTF-8 (no JSON or CSV could hold them), and files of a list on
    standard input that are not there.

    Raises:
        InputError: a path, pattern or list that leads to no file at all.
    """
    found: dict[str, Path] = {}
    for path in _all(photos, failures):
        key = os.path.normpath(path)
        if key in found:
            continue
        if shown(path) != str(path):
            failures.add(path, "its name is not UTF-8")
            continue
        found[key] = path
    if not found and not len(failures):
        raise InputError("There are no photos: the list on standard input is empty.")
    return list(found.values())


def _all(photos: Sequence[str], failures: Failures) -> Iterator[Path]:
    if not photos:
        raise InputError(
            "Give photos: folders, files, patterns, or - for a list on standard input."
        )
    if photos.count("-") > 1:
        raise InputError("Standard input (-) can be read only once.")
    for photo in photos:
        yield from _listed(failures) if photo == "-" else _named(photo, failures)


def _listed(failures: Failures) -> Iterator[Path]:
    if sys.stdin.isatty():
        raise InputError(
            "- reads a list of files from standard input, which is this terminal. Pipe one in: "
            "find photos -name '*.jpg' | piaa predict - ..."
        )
    data = sys.stdin.buffer.read()
    for line in data.split(b"\0") if b"\0" in data else data.splitlines():
        if line.strip():
            path = Path(os.fsdecode(line))
            if path.is_dir():
                yield from _in_folder(path, failures)
            else:
                yield path  # one that is not there is found out, and counted, when it is opened


def _named(photo: str, failures: Failures) -> Iterable[Path]:
    path = Path(photo).expanduser()
    if os.path.lexists(path):
        return _in_folder(path, failures) if path.is_dir() else [path]
    if not glob.has_magic(photo):
        raise InputError(
            f"There is no file or folder {shown(photo)!r}. Check the spelling; the current folder "
            f"is {shown(Path.cwd())!r}."
        )
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 -- ** and absolute ones
    if not matches:
        raise InputError(f"No file matches {shown(photo)!r}.")
    paths = [Path(match) for match in matches]
    if "**" in photo:  # which gives folders and what is in them: a folder would bring back the rest
        paths = [path for path in paths if not path.is_dir()] or paths
    return (
        file for path in paths for file in (_in_folder(path, failures) if path.is_dir() else [path])
    )


def _in_folder(folder: Path, failures: Failures) -> list[Path]:
    from piaa.images import list_images

    return list_images(folder, on_error=failures.add)
