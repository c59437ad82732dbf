"""`piaa doctor`: is everything there, how fast is it, and what to install for what is missing."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from piaa.cli import exits
from piaa.cli.encoders import JsonOption
from piaa.cli.group import examples

EXAMPLES = examples(
    "piaa doctor", "piaa doctor --no-speed --json", "piaa doctor --hub  # needs network"
)


def doctor(
    hub: Annotated[
        bool, typer.Option("--hub", help="Also ask whether the model hub answers (network).")
    ] = False,
    speed: Annotated[
        bool, typer.Option("--speed/--no-speed", help="Measure an encoder for a few seconds.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Show versions, device, threads, speed and caches, and what to install for what is missing.

    Nothing is downloaded, and no network is touched without --hub. The exit code is 1 if something
    does not work.
    """
    from piaa.cli.health import check_all

    sections = check_all(hub=hub, speed=speed)
    broken = any(fact.broken for facts in sections.values() for fact in facts)
    if as_json:
        content = {
            section: {fact.name: fact.value for fact in facts}
            for section, facts in sections.items()
        }
        content["advice"] = {
            fact.name: fact.advice for facts in sections.values() for fact in facts if fact.advice
        }
        typer.echo(json.dumps({**content, "ok": not broken}, indent=2))
    else:
        from rich.text import Text

        from piaa.cli.tables import facts as grid
        from piaa.cli.terminal import stdout_console

        console = stdout_console()
        for section, found in sections.items():
            console.print(Text(section, style="bold"))
            console.print(grid((f"  {fact.name}", fact.value) for fact in found))
        for fact in (fact for found in sections.values() for fact in found if fact.advice):
            mark = "[red]![/red]" if fact.broken else "[yellow]>[/yellow]"
            console.print(f"{mark} {fact.name}: ", end="")
            console.print(fact.advice, markup=False, soft_wrap=True)
        console.print("Something does not work." if broken else "Everything that is needed works.")
    if broken:
        raise typer.Exit(exits.SOME_FAILED)
