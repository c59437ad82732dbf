"""`piaa encoders`: the registered encoders and the front-ends."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from piaa.cli.group import examples

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]

EXAMPLES = examples("piaa encoders", "piaa encoders --json")


def encoders(as_json: JsonOption = False) -> None:
    """List the encoders that can be named, and the front-ends.

    The first ones come from the model hub, lite and lite-fast from the package index; cached ones
    are on this machine already.
    """
    from piaa.cli.weight_files import cached_files
    from piaa.encoders.frontends import FRONTENDS
    from piaa.encoders.lite.encoder import IMAGE_SIZE
    from piaa.encoders.lite.network import DIM, STRIDE
    from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM
    from piaa.encoders.registry import ENCODERS

    cached = {name: cached_files(name) for name in (*ENCODERS, *LITE_ENCODERS)}
    if as_json:
        content = {
            "encoders": [_with_files(entry, cached) for entry in ENCODERS.values()],
            "embedded": [_with_files(entry, cached) for entry in LITE_ENCODERS.values()],
            "frontends": {name: frontend.summary for name, frontend in FRONTENDS.items()},
        }
        typer.echo(json.dumps(content, indent=2))
        return
    from piaa.cli.tables import plain_table
    from piaa.cli.terminal import stdout_console

    columns = ("name", "by", "input", "patch", "vector", "download", "cached", "licence")
    table = plain_table(*columns, right=("input", "patch", "vector", "download"))
    for entry in ENCODERS.values():
        table.add_row(
            entry.name,
            entry.publisher,
            f"{entry.image_size} px",
            str(entry.patch),
            str(entry.embed_dim),
            f"{entry.megabytes} MB",
            "yes" if cached[entry.name] else "-",
            entry.licence,
        )
    for lite in LITE_ENCODERS.values():
        table.add_row(
            lite.name,
            "Google",
            f"{IMAGE_SIZE} px",
            str(STRIDE),
            str(DIM),
            f"{lite.source.megabytes + MINILM.megabytes} MB",
            "yes" if cached[lite.name] else "-",
            lite.source.licence,
        )
    frontends = plain_table("front-end", "how patch features are read")
    for name, frontend in FRONTENDS.items():
        frontends.add_row(name, frontend.summary)
    console = stdout_console()
    console.print(table)
    console.print()
    console.print(frontends)


def _with_files(entry: Any, cached: dict[str, Any]) -> dict[str, Any]:
    files = cached[entry.name]
    return {**asdict(entry), "cached": None if files is None else [str(path) for path in files]}
