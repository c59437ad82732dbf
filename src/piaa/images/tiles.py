"""Overlapping windows of a picture, so that small things fill more of the network's canvas."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, TypeAlias

from piaa.errors import InputError, UnknownNameError

PixelBox: TypeAlias = tuple[int, int, int, int]
"""(top, left, bottom, right) in whole pixels; bottom and right are excluded."""


@dataclass(frozen=True)
class Tiles:
    """rows x columns windows of equal size over a picture, after the whole picture itself.

    Attributes:
        rows, columns: windows down and across; at least two in all.
        overlap: share of a window's side that it has in common with the next, in [0, 0.9]. At the
            default, 2 x 2 windows show things 1.75 times as large, and whatever is up to 1/7 of
            the picture's side lies whole in one of them; at 0.5 it is 1.5 times and 1/3.

    >>> Tiles(1, 2, overlap=0.5).boxes(60, 90)
    ((0, 0, 60, 90), (0, 0, 60, 60), (0, 30, 60, 90))
    """

    rows: int = 2
    columns: int = 2
    overlap: float = 0.25

    def __post_init__(self) -> None:
        for name, count in (("rows", self.rows), ("columns", self.columns)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise InputError(
                    f"{name} of tiles must be a whole number of at least 1, not {count!r}."
                )
        if self.rows * self.columns < 2:
            raise InputError(
                "Tiles of 1 x 1 would show the whole picture twice. Ask for at least two windows, "
                "such as Tiles(2, 2), or for no tiles."
            )
        if (
            isinstance(self.overlap, bool)
            or not isinstance(self.overlap, int | float)
            or not 0 <= self.overlap <= 0.9  # NaN fails here too
        ):
            raise InputError(f"overlap of tiles must lie in [0, 0.9], not {self.overlap!r}.")
        object.__setattr__(self, "overlap", float(self.overlap))

    def __len__(self) -> int:
        """Windows of a picture, the whole one included: rows * columns + 1."""
        return self.rows * self.columns + 1

    def boxes(self, height: int, width: int) -> tuple[PixelBox, ...]:
        """The whole picture, then the windows row by row; these cover the picture completely.

        A picture with fewer pixels than windows along a side shows some of them more than once.
        """
        if min(height, width) < 1:
            raise InputError(f"A picture of {height} x {width} pixels has no windows.")
        down = _spans(height, self.rows, self.overlap)
        across = _spans(width, self.columns, self.overlap)
        windows = ((top, left, bottom, right) for top, bottom in down for left, right in across)
        return (0, 0, height, width), *windows

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` gives an equal object back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise UnknownNameError("setting of tiles", key, known)
        return cls(**values)


def _spans(length: int, count: int, overlap: float) -> list[tuple[int, int]]:
    """`count` spans of one size from 0 to `length`."""
    if count == 1:
        return [(0, length)]
    # Rounded up: then steps, which are rounded too, cannot exceed the size and leave a gap.
    size = min(length, math.ceil(length / (1 + (count - 1) * (1 - overlap))))
    starts = [round(i * (length - size) / (count - 1)) for i in range(count)]
    return [(start, start + size) for start in starts]
