"""Files and folders that a command writes: nothing is overwritten unasked, nothing is left half done."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, TextIO

import typer

from piaa.atomic import whole_file
from piaa.claims import claimed
from piaa.cli.failures import shown
from piaa.errors import InputError

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an output that exists already.")
]


_claims: ContextVar[ExitStack | None] = ContextVar("_claims", default=None)


@contextmanager
def holding_claims() -> Iterator[None]:
    """Around a command: what it claims is its own until it ends."""
    with ExitStack() as held:
        token = _claims.set(held)
        try:
            yield
        finally:
            _claims.reset(token)


def check_new_file(path: Path, *, force: bool) -> None:
    """Before any work: refuse a file that exists (without `force`) or could not be written.

    From here to the end of the command it is claimed: another process that wants it is told.
    """
    if path.is_dir():
        raise InputError(f"The output {shown(path)!r} is a folder. Give the name of a file.")
    if os.path.lexists(path) and not force:
        raise InputError(
            f"The output {shown(path)!r} exists. Give another name, or --force to replace it."
        )
    _check_parent(path)
    _claim(path)


def check_new_folder(path: Path, *, force: bool) -> None:
    """Before any work: refuse a folder with something in it (without `force`), or a file.

    It is claimed like a file.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"The output {shown(path)!r} is a file. Give the name of a folder.")
    if path.is_dir() and not force and any(path.iterdir()):
        raise InputError(
            f"The output folder {shown(path)!r} is not empty. Give another one, or --force to write "
            "into it."
        )
    _check_parent(path)
    _claim(path)


def _claim(path: Path) -> None:
    held = _claims.get()
    # Without its folder there is nobody to meet yet; `written_whole` claims it when it is there.
    if held is not None and path.absolute().parent.is_dir():
        with _errors_about(path):
            held.enter_context(claimed(path.absolute()))


def _check_parent(path: Path) -> None:
    """The nearest folder that exists must take new files; folders in between are made later."""
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(
            f"The output {shown(path)!r} cannot be written: {shown(parent)!r} is no folder that this "
            "user may write to."
        )


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A UTF-8 file to write text to, which gets its name when all is written; else it is removed."""
    with _errors_about(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # newline="": the csv module writes its own line ends, and JSON lines have \n everywhere.
        with (
            claimed(path.absolute()),
            whole_file(path) as temporary,
            temporary.open("x", encoding="utf-8", newline="") as file,
        ):
            yield file


@contextmanager
def _errors_about(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            f"The output {shown(path)!r} cannot be written: {error.strerror or error}."
        ) from error
