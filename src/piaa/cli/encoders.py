"""`piaa encoders`: the registered encoders and the front-ends."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer


def encoders(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")] = False,
) -> None:
    """List the encoders that can be named, and the front-ends."""
    from rich.console import Console
    from rich.table import Table

    from piaa.encoders.frontends import FRONTENDS
    from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM
    from piaa.encoders.registry import ENCODERS

    if as_json:
        content = {
            "encoders": [asdict(entry) for entry in ENCODERS.values()],
            "embedded": [asdict(entry) for entry in LITE_ENCODERS.values()],
            "frontends": {name: frontend.summary for name, frontend in FRONTENDS.items()},
        }
        typer.echo(json.dumps(content, indent=2))
        return
    table = Table(title="Encoders")
    for heading in ("name", "publisher", "input", "patch", "vector", "download", "licence"):
        table.add_column(heading, no_wrap=heading == "name")
    for entry in ENCODERS.values():
        table.add_row(
            entry.name,
            entry.publisher,
            f"{entry.image_size} px",
            str(entry.patch),
            str(entry.embed_dim),
            f"{entry.megabytes} MB",
            entry.licence,
        )
    for lite in LITE_ENCODERS.values():
        size = f"{lite.source.megabytes + MINILM.megabytes} MB"
        table.add_row(lite.name, "Google", "320 px", "32", "1280", size, lite.source.licence)
    frontends = Table(title="Front-ends")
    frontends.add_column("name", no_wrap=True)
    frontends.add_column("how patch features are read")
    for name, frontend in FRONTENDS.items():
        frontends.add_row(name, frontend.summary)
    console = Console()
    console.print(table)
    console.print(frontends)
