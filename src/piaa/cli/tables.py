"""Tables that several commands print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from piaa.fitting.fit_report import FitReport


def plain_table(*headings: str, right: Iterable[str] = ()) -> Table:
    """Rows under headings; the first column is never broken, columns in `right` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    numbers = set(right)
    for place, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if heading in numbers else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=place == 0)
    return table


def facts(rows: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, Text(str(value)))
    return grid


def report_table(report: FitReport) -> Table:
    """What a fit found, class by class: evidence, presence, images, kept patches, threshold, warnings."""
    table = plain_table(
        "class",
        "evidence",
        "presence",
        "images",
        "kept",
        "share",
        "threshold",
        "",
        right=("evidence", "presence", "images", "kept", "share", "threshold"),
    )
    for row in report.classes:
        style = "yellow" if row.warning else ""
        table.add_row(
            Text(row.name, style=style),
            f"{row.evidence:.2f}",
            f"{row.presence:.2f}",
            f"{row.images:,}",
            f"{row.kept:,}",
            f"{row.prevalence:.1%}",
            f"{row.threshold:.2f}",
            Text(row.warning, style=style),
        )
    return table
