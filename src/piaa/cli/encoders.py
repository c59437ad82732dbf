"""`piaa encoders`: the registered encoders and the front-ends."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from piaa.cli.group import examples

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]

LicencesOption = Annotated[
    bool, typer.Option("--licences", help="List also the licences of the packages piaa runs with.")
]

EXAMPLES = examples("piaa encoders", "piaa encoders --licences", "piaa encoders --json")


def encoders(licences: LicencesOption = False, as_json: JsonOption = False) -> None:
    """List the encoders that can be named with their licences, and the front-ends.

    The first ones come from the model hub, lite and lite-fast from the package index; cached ones
    are on this machine already.
    """
    from piaa.cli.licences import dependencies
    from piaa.cli.weight_files import cached_files
    from piaa.encoders.frontends import FRONTENDS
    from piaa.encoders.lite.loading import IMAGE_SIZE
    from piaa.encoders.lite.network import DIM, STRIDE
    from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM
    from piaa.encoders.registry import ENCODERS

    cached = {name: cached_files(name) for name in (*ENCODERS, *LITE_ENCODERS)}
    if as_json:
        content: dict[str, Any] = {
            "encoders": [_with_files(entry, cached) for entry in ENCODERS.values()],
            "embedded": [_with_files(entry, cached) for entry in LITE_ENCODERS.values()],
            "embedded_text": asdict(MINILM),
            "frontends": {name: frontend.summary for name, frontend in FRONTENDS.items()},
        }
        if licences:
            content["dependencies"] = [asdict(package) for package in dependencies()]
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
    console.print(
        f"lite and lite-fast read words with {MINILM.attribution}: {MINILM.licence}. Their pictures: "
        f"{LITE_ENCODERS['lite'].source.attribution}.",
        markup=False,
    )
    console.print()
    console.print(frontends)
    if licences:
        packages = plain_table("package", "version", "licence", "needed by")
        for package in dependencies():
            packages.add_row(package.name, package.version, package.licence, package.needed_by)
        console.print()
        console.print(packages)


def _with_files(entry: Any, cached: dict[str, Any]) -> dict[str, Any]:
    files = cached[entry.name]
    return {**asdict(entry), "cached": None if files is None else [str(path) for path in files]}
