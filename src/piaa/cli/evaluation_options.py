"""What `piaa evaluate` and `piaa reproduce` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from piaa.cli.progress import Progress

if TYPE_CHECKING:
    from piaa.evaluation.encoded import Advance

DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset",
        "-d",
        metavar="NAME",
        help="voc2007, voc2012, coco2014, coco2017, nuswide, folder (images with labels.csv or "
        "labels.jsonl) or lists.",
        show_default=False,
    ),
]
PartialOption = Annotated[
    bool,
    typer.Option(
        "--partial",
        help="Evaluate on what is there where the data set is not complete; the result says so.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", min=1, metavar="N", help="The first N images of each split.", show_default="all"
    ),
]
RoundsOption = Annotated[int, typer.Option("--rounds", min=2, help="Rounds of the bootstrap.")]


@contextmanager
def watching(label: str, total: int) -> Iterator[Advance | None]:
    """Progress of a part of an evaluation, on standard error."""
    with Progress(label, total=total) as progress:
        yield progress.advance
