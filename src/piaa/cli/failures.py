"""Pictures that cannot be used: skipped, counted, and listed at the end with the reason."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from piaa.cli import exits
from piaa.errors import ImageError, InputError

StrictOption = Annotated[
    bool,
    typer.Option("--strict", help="Stop at the first picture that cannot be used."),
]


def shown(path: str | os.PathLike[str]) -> str:
    r"""A path as text that every stream can take: bytes that are not UTF-8 are written \xNN.

    >>> shown("caf\udce9.jpg")
    'caf\\xe9.jpg'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


class Failures:
    """What was skipped, in order. With `strict` the first one is an `InputError` instead.

    >>> failures = Failures()
    >>> failures.add("a.jpg", "it is empty")
    >>> len(failures), failures.exit_code
    (1, 1)
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.items: list[tuple[str | os.PathLike[str], str]] = []

    def __len__(self) -> int:
        return len(self.items)

    @property
    def exit_code(self) -> int:
        """Of a command that finished apart from these."""
        return exits.SOME_FAILED if self.items else exits.OK

    def add(self, path: str | os.PathLike[str], reason: str) -> None:
        """Count a picture (or folder) that is skipped; `reason` is a few words without a full stop."""
        if self.strict:
            raise InputError(f"{shown(path)}: {reason}. Without --strict it would be skipped.")
        self.items.append((path, reason))  # as given: a Path would spoil a URL

    def on_error(self, index: int, source: Any, error: ImageError) -> None:  # noqa: ARG002
        """As `on_error=` of `Recognizer.stream`, `Recognizer.fit` and `read_batches`."""
        self.add(source, error.reason)

    def show(self) -> None:
        """List them on standard error; nothing if there are none."""
        if not self.items:
            return
        typer.echo(f"{len(self.items):,} skipped:", err=True)
        for path, reason in self.items:
            typer.echo(f"  {shown(path)}: {reason}", err=True)

    def to_dicts(self) -> list[dict[str, str]]:
        """For JSON: `[{"file": ..., "reason": ...}]`."""
        return [{"file": shown(path), "reason": reason} for path, reason in self.items]

    def finish(self) -> None:
        """List them and leave with `exit_code`, if there are any: the last thing a command does."""
        self.show()
        if self.items:
            raise typer.Exit(self.exit_code)
