"""`piaa inspect`: what is in a model or in weights. Nothing in a file is ever run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from piaa.cli.encoders import JsonOption
from piaa.cli.group import examples

EXAMPLES = examples(
    "piaa inspect pets.piaa", "piaa inspect pets.piaa --json", "piaa inspect clip.safetensors"
)


def inspect(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A model of piaa fit (or the name of one in the package), a checkpoint file, or a "
            "directory with one.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what is in a model or in weights, and check that it is whole.

    A model: its classes with their thresholds and evidence, its encoder and settings. Weights: what
    model they make, whose they are, their precision and hash.
    """
    from piaa.cli.describing import describe_model, describe_weights, is_model
    from piaa.shipped import model_file

    shipped = model_file(file)
    path = Path(file) if shipped is None else Path(str(shipped))
    content = describe_model(path) if is_model(path) else describe_weights(path)
    if as_json:
        typer.echo(json.dumps(content.data, indent=2, ensure_ascii=False))
        return
    from piaa.cli.tables import facts
    from piaa.cli.terminal import stdout_console

    console = stdout_console()
    console.print(facts(content.facts))
    if content.table is not None:
        console.print()
        console.print(content.table)
