"""`piaa config`: the value of every option and where it came from."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from typing import Annotated, Any

import typer

from piaa.cli.encoders import JsonOption
from piaa.cli.group import examples
from piaa.cli.settings import FILE, all_settings, settings_file
from piaa.errors import UnknownNameError

EXAMPLES = examples(
    "piaa config", "piaa config predict", "PIAA_DEVICE=cpu piaa config --changed --json"
)


def config(
    context: typer.Context,
    command: Annotated[
        str | None,
        typer.Argument(
            metavar="COMMAND", help="Show this command's options only.", show_default=False
        ),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only what is not a default.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the value of every option if its flag is not given, and where it comes from.

    A flag goes first, then the environment (PIAA_PREDICT_TOP_K for one command, PIAA_TOP_K for all
    that have it), then piaa.toml of the current folder or the file of --config, then the default.
    """
    root = context.find_root()
    found = list(all_settings(root))
    known = list(dict.fromkeys(item.command for item in found))
    if command is not None:
        if command not in known:
            raise UnknownNameError("command", command, known)
        found = [item for item in found if item.command == command]
    if changed:
        found = [item for item in found if item.origin != "default"]
    if as_json:
        typer.echo(json.dumps([asdict(item) for item in found], indent=2, default=_plain))
        return
    from piaa.cli.tables import plain_table
    from piaa.cli.terminal import stdout_console

    console = stdout_console()
    file = settings_file(root)
    console.print(f"Settings file: {file or f'none ({FILE} is not in this folder)'}")
    if not found:
        console.print("All options have their defaults.")
        return
    table = plain_table("command", "option", "value", "from")
    last = None
    for item in found:
        value = "-" if item.value is None else _plain(item.value)
        style = "dim" if item.origin == "default" else "bold"
        shown_command = item.command if item.command != last else ""
        table.add_row(shown_command, f"--{item.option}", str(value), item.origin, style=style)
        last = item.command
    console.print(table)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else str(value)
