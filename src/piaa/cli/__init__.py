"""The `piaa` command. One file per subcommand; heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from piaa import __version__
from piaa.cli import encoders, smoke
from piaa.errors import PiaaError

app = typer.Typer(
    name="piaa",
    help="Tell which of your labels are in each of your photographs, without training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("smoke")(smoke.smoke)
app.command("encoders")(encoders.encoders)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"piaa {__version__}")
        raise typer.Exit


@app.callback()
def _piaa(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors that piaa raises on purpose become one message and exit code 2."""
    try:
        app()
    except PiaaError as error:
        typer.echo(f"piaa: {error}", err=True)
        sys.exit(2)
