"""The `piaa` command. One file per subcommand; heavy imports happen inside the commands."""

from __future__ import annotations

import io
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from piaa import __version__
from piaa.cli import (
    cache,
    demo,
    doctor,
    encoders,
    evaluate,
    exits,
    fit,
    inspect,
    predict,
    report,
    reproduce,
    serve,
    settings_view,
    smoke,
    tune,
    weights,
)
from piaa.cli.group import PiaaGroup
from piaa.cli.settings import read_settings, unknown_variables

_PHOTOS, _MEASURING, _LOOKING = "Your photos", "Measuring", "Looking and checking"

app = typer.Typer(
    name="piaa",
    cls=PiaaGroup,
    help="Tell which of your labels are in each of your photographs, without training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("fit", epilog=fit.EXAMPLES, rich_help_panel=_PHOTOS)(fit.fit)
app.command("predict", epilog=predict.EXAMPLES, rich_help_panel=_PHOTOS)(predict.predict)
app.command("report", epilog=report.EXAMPLES, rich_help_panel=_PHOTOS)(report.report)
app.command("serve", epilog=serve.EXAMPLES, rich_help_panel=_PHOTOS)(serve.serve)
app.command("evaluate", epilog=evaluate.EXAMPLES, rich_help_panel=_MEASURING)(evaluate.evaluate)
app.command("reproduce", epilog=reproduce.EXAMPLES, rich_help_panel=_MEASURING)(reproduce.reproduce)
app.command("inspect", epilog=inspect.EXAMPLES, rich_help_panel=_LOOKING)(inspect.inspect)
app.command("encoders", epilog=encoders.EXAMPLES, rich_help_panel=_LOOKING)(encoders.encoders)
app.add_typer(weights.app, name="weights", no_args_is_help=True, rich_help_panel=_LOOKING)
app.add_typer(cache.app, name="cache", no_args_is_help=True, rich_help_panel=_LOOKING)
app.command("doctor", epilog=doctor.EXAMPLES, rich_help_panel=_LOOKING)(doctor.doctor)
app.command("tune", epilog=tune.EXAMPLES, rich_help_panel=_LOOKING)(tune.tune)
app.command("config", epilog=settings_view.EXAMPLES, rich_help_panel=_LOOKING)(settings_view.config)
app.command("demo", epilog=demo.EXAMPLES, rich_help_panel=_PHOTOS)(demo.demo)
app.command("smoke", epilog=smoke.EXAMPLES, rich_help_panel=_LOOKING)(smoke.smoke)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"piaa {__version__}")
        raise typer.Exit


@app.callback()
def _piaa(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="PIAA_CONFIG",
            help="Settings file.",
            show_default="piaa.toml of the current folder, if there",
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    read_settings(context, config)
    for name in unknown_variables(context.command):
        typer.echo(f"piaa: warning: the variable {name} sets nothing, see piaa config", err=True)


def main() -> None:
    """Run the command line; see `piaa.cli.exits` for the exit codes."""
    if not sys.stdout.isatty() and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # files of results do not depend on the locale
    try:
        app(prog_name="piaa")
    except Exception:
        traceback.print_exc()
        sys.exit(exits.BUG)
