"""Filled tables as CSV, Markdown and for the terminal: paper, ours and the difference side by side."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from piaa.evaluation.cells import Cell
from piaa.evaluation.jobs import Outcome, Result

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Filled:
    """A cell with our number, in the paper's unit (percent or minutes), or why there is none.

    Attributes:
        low, high: 95 % interval of an mAP.
    """

    cell: Cell
    ours: float | None
    low: float | None
    high: float | None
    reason: str

    @property
    def difference(self) -> float | None:
        if self.ours is None or self.cell.paper is None:
            return None
        return self.ours - self.cell.paper


def fill(cells: Sequence[Cell], outcome: Outcome) -> list[Filled]:
    """Put results into cells."""
    filled = []
    for cell in cells:
        result = None if cell.job is None else outcome.results.get(cell.job)
        if result is None:
            why = cell.reason if cell.job is None else outcome.reasons.get(cell.job, "not run")
            filled.append(Filled(cell, None, None, None, why))
        else:
            filled.append(_filled(cell, result))
    return filled


def _filled(cell: Cell, result: Result) -> Filled:
    if cell.measure == "map":
        return Filled(cell, 100 * result.map, 100 * result.low, 100 * result.high, "")
    if cell.measure == "class":
        known = result.per_class.get(cell.class_name)
        why = "" if known is not None else "no positive image"
        return Filled(cell, None if known is None else 100 * known, None, None, why)
    minutes = getattr(result, cell.measure)
    return Filled(cell, minutes, None, None, "" if minutes is not None else "not timed")


def to_csv(filled: Sequence[Filled]) -> str:
    """One line a cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("row", "column", "paper", "ours", "low", "high", "difference", "not run because")
    )
    for one in filled:
        numbers = (one.cell.paper, one.ours, one.low, one.high, one.difference)
        shown = ["" if number is None else f"{number:.4g}" for number in numbers]
        writer.writerow((one.cell.row, one.cell.column, *shown, one.reason))
    return text.getvalue()


def to_markdown(filled: Sequence[Filled]) -> str:
    """A table with a line for each row, cells as "paper | ours | difference", and reasons below."""
    rows, columns = headings(filled)
    lines = [
        "| | " + " | ".join(f"{column}: paper | ours | diff." for column in columns) + " |",
        "|---|" + "---|" * (3 * len(columns)),
    ]
    for row in rows:
        parts = [part for column in columns for part in _three(find(filled, row, column))]
        lines.append(f"| {row} | " + " | ".join(parts) + " |")
    reasons = gaps(filled)
    if reasons:
        lines += ["", "Not run:", *(f"- {what}: {why}" for why, what in reasons.items())]
    return "\n".join(lines) + "\n"


def to_rich(filled: Sequence[Filled], title: str) -> Table:
    """The same for the terminal."""
    from rich.table import Table

    rows, columns = headings(filled)
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for column in columns:
        table.add_column(f"{column}\n paper  ours diff.", no_wrap=True)
    for row in rows:
        cells = [_three(find(filled, row, column)) for column in columns]
        table.add_row(row, *("".join(f"{part:>6}" for part in parts) for parts in cells))
    return table


def headings(filled: Sequence[Filled]) -> tuple[list[str], list[str]]:
    """Rows and columns, each in the order of the cells."""
    rows = list(dict.fromkeys(one.cell.row for one in filled))
    return rows, list(dict.fromkeys(one.cell.column for one in filled))


def find(filled: Sequence[Filled], row: str, column: str) -> Filled | None:
    places = (one for one in filled if (one.cell.row, one.cell.column) == (row, column))
    return next(places, None)


def gaps(filled: Sequence[Filled]) -> dict[str, str]:
    """Each reason for cells that were not run, and which these are in words."""
    found: dict[str, list[Cell]] = {}
    for one in filled:
        if one.ours is None:
            found.setdefault(one.reason, []).append(one.cell)
    described = {}
    for why, cells in found.items():
        columns = list(dict.fromkeys(cell.column for cell in cells))
        rows = list(dict.fromkeys(cell.row for cell in cells))
        few = ", ".join(rows) if len(rows) <= 4 else f"{len(rows)} rows"
        described[why] = f"{few} ({', '.join(columns)})"
    return described


def _three(one: Filled | None) -> tuple[str, str, str]:
    if one is None:
        return "", "", ""
    paper = "" if one.cell.paper is None else f"{one.cell.paper:.1f}"
    ours = "-" if one.ours is None else f"{one.ours:.1f}"
    return paper, ours, "" if one.difference is None else f"{one.difference:+.1f}"
