"""The numbers that the paper prints, as data."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Final

from piaa.errors import UnknownNameError

TABLES: Final = ("main", "ablation", "frontends", "backbones", "timing", "scale", "sweeps")
DATASETS: Final = {
    "voc12": "voc2012",
    "voc07": "voc2007",
    "coco": "coco2014",
    "nus": "nuswide",
}
"""The paper's columns, and what `piaa.datasets` calls them."""


@cache
def paper_table(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table, as text; an empty cell was not printed.

    >>> paper_table("ablation")[3]["voc07"]
    '92.5'
    """
    if name not in TABLES:
        raise UnknownNameError("table of the paper", name, TABLES)
    text = files("piaa").joinpath("data", "paper", f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def printed(value: str) -> float | None:
    """A cell as a number; None if it is empty."""
    return float(value) if value else None
