"""What all commands share: settings, warnings and errors in one line, quiet ends of pipes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from piaa.cli import exits, settings
from piaa.cli.outputs import holding_claims
from piaa.errors import PiaaError


class PiaaGroup(TyperGroup):
    """The group of all commands. Whatever a command raises on purpose ends here."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        settings.bind_environment(self)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _tidy_help(self)
        super().format_help(ctx, formatter)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            _tidy_help(command)
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_in_one_line(), holding_claims():
                result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a closed pipe is still ours to handle
            return result
        except typer.BadParameter as error:
            _say_where_it_was_set(error)
            raise
        except PiaaError as error:
            typer.echo(f"piaa: {error}", err=True)
            raise typer.Exit(exits.BAD_INPUT) from error
        except BrokenPipeError as error:
            _discard_output()
            raise typer.Exit(exits.CLOSED_PIPE) from error
        except KeyboardInterrupt as error:
            typer.echo("\npiaa: interrupted", err=True)
            raise typer.Exit(exits.INTERRUPTED) from error


def examples(*lines: str) -> str:
    """Commands as the Examples section of a command's --help; the documents show and run them too.

    Give it to `app.command("name", epilog=examples("piaa name ...", ...))`. A line that ends in
    "  # needs network" or "  # runs until stopped" is shown, but only its options are tested.
    """
    # rich would take brackets for markup
    return "\n".join(
        ["[bold]Examples[/bold]", *("  " + line.replace("[", "\\[") for line in lines)]
    )


def example_lines(command: Any) -> list[str]:
    """The commands that `examples` was given.

    >>> from types import SimpleNamespace
    >>> example_lines(SimpleNamespace(epilog=examples("piaa a 'x[12].jpg'", "piaa b")))
    ["piaa a 'x[12].jpg'", 'piaa b']
    """
    lines = (command.epilog or "").split("\n")[1:]
    return [line.strip().replace("\\[", "[") for line in lines]


def _tidy_help(command: Any) -> None:
    """Paragraphs of a docstring flow; flags and arguments need no type; variables have a page."""
    for below in getattr(command, "commands", {}).values():
        _tidy_help(below)
    if command.help:
        command.help = "\n\n".join(" ".join(p.split()) for p in command.help.split("\n\n"))
    for param in command.get_params(typer.Context(command)):
        param.show_envvar = False
        if getattr(param, "is_flag", False) or param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: None  # noqa: ARG005


def _say_where_it_was_set(error: typer.BadParameter) -> None:
    if error.ctx is None or error.param is None:
        return
    origin = settings.origin(error.ctx, error.param)
    if origin not in ("flag", "default"):
        error.message += f" (set by {origin})"


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"piaa: warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _discard_output() -> None:
    """Point both streams nowhere: what they still hold would fail again when Python exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError):  # a stream of a test, without a file behind it
            continue
    os.close(nowhere)
