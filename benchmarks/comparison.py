"""Ratios against those of another run: what fell, what is gone, what is new. Nothing but arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOLERANCE = 0.15


@dataclass(frozen=True)
class Comparison:
    """Rows by what became of them, each list in the order of the table.

    Attributes:
        fell: rows more than the tolerance below their baseline.
        gone: rows of the baseline that were not measured.
        new: rows that the baseline does not have.
    """

    fell: list[str]
    gone: list[str]
    new: list[str]

    @property
    def holds(self) -> bool:
        """Nothing fell, and nothing escaped by not being measured."""
        return not self.fell and not self.gone


def compare(
    baseline: Mapping[str, float], now: Mapping[str, float], *, tolerance: float = TOLERANCE
) -> Comparison:
    """Both hold ratios of which higher is better; all must be positive numbers.

    >>> compare({"a": 2.0, "b": 3.0}, {"a": 1.75, "b": 2.5, "c": 1.0})
    Comparison(fell=['b'], gone=[], new=['c'])
    """
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance must lie in [0, 1), got {tolerance!r}.")
    for name, value in [*baseline.items(), *now.items()]:
        if not 0 < value < float("inf"):  # written so that NaN fails too
            raise ValueError(f"The ratio of {name!r} must be a positive number, got {value!r}.")
    return Comparison(
        fell=[row for row in now if row in baseline and now[row] < (1 - tolerance) * baseline[row]],
        gone=[row for row in baseline if row not in now],
        new=[row for row in now if row not in baseline],
    )


def better_of(first: Mapping[str, float], again: Mapping[str, float]) -> dict[str, float]:
    """Rows of `first`, with the higher ratio where a row was measured again.

    A busy moment can only hide speed: the same code does not run faster than it can.
    """
    return {row: max(value, again.get(row, value)) for row, value in first.items()}


def table(now: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Lines of a Markdown table; the change is against the baseline where it has the row."""
    lines = ["| times as fast, or as cheap | ratio | baseline | change |", "|---|---|---|---|"]
    for row, value in now.items():
        known = row in baseline
        before = f"{baseline[row]:.2f}" if known else ""
        change = f"{100 * (value / baseline[row] - 1):+.0f} %" if known else "new"
        lines.append(f"| {row} | {value:.2f} | {before} | {change} |")
    return lines
