"""How a picture lies on the network's canvas: coordinates there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import torch

from piaa.errors import InputError

Fit: TypeAlias = Literal["crop", "squash", "pad"]
Size: TypeAlias = tuple[int, int]

Coordinate = TypeVar("Coordinate", float, torch.Tensor)


@dataclass(frozen=True)
class Placement:
    """Where the canvas lies in the original picture; each axis is scaled and shifted on its own.

    Coordinates are continuous: pixel i covers [i, i + 1), its center is i + 0.5.

    Attributes:
        original_size: (rows, columns) of the upright picture.
        canvas_size: (rows, columns) of the network's input.
        box: (top, left, bottom, right) of the canvas in the picture's coordinates. It is inside
            the picture for a crop, exactly the picture when squashed, reaches beyond when padded.
    """

    original_size: Size
    canvas_size: Size
    box: tuple[float, float, float, float]

    def to_original(self, row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        """Map a point of the canvas (numbers or tensors) to the original picture."""
        top, left, bottom, right = self.box
        rows, columns = self.canvas_size
        return top + row * ((bottom - top) / rows), left + column * ((right - left) / columns)

    def to_canvas(self, row: Coordinate, column: Coordinate) -> tuple[Coordinate, Coordinate]:
        """Map a point of the original picture (numbers or tensors) to the canvas."""
        top, left, bottom, right = self.box
        rows, columns = self.canvas_size
        return (row - top) * (rows / (bottom - top)), (column - left) * (columns / (right - left))

    def inside(self, box: tuple[int, int, int, int], original_size: Size) -> Placement:
        """The same canvas seen from a larger picture, where this one was cut out of it.

        Args:
            box: (top, left, bottom, right) of this placement's picture in the larger one.
            original_size: (rows, columns) of the larger picture.

        >>> place((50, 60), (32, 32), "squash").inside((10, 20, 60, 80), (100, 200)).box
        (10.0, 20.0, 60.0, 80.0)
        """
        top, left, bottom, right = box
        size = (bottom - top, right - left)
        within = min(top, left) >= 0 and bottom <= original_size[0] and right <= original_size[1]
        if size != self.original_size or not within:
            raise InputError(
                f"A picture of {self.original_size} cannot be cut out of one of {original_size} "
                f"at {box}: the box must have its size and lie inside."
            )
        first, second, third, fourth = self.box
        moved = (first + top, second + left, third + top, fourth + left)
        return Placement(original_size, self.canvas_size, moved)

    @property
    def content(self) -> tuple[int, int, int, int]:
        """(top, left, bottom, right) of the canvas pixels that show the picture; the rest is pad.

        >>> place((100, 200), (224, 224), "pad").content
        (56, 0, 168, 224)
        """
        rows, columns = self.canvas_size
        top, left = self.to_canvas(0.0, 0.0)
        bottom, right = self.to_canvas(*map(float, self.original_size))
        return (
            max(0, round(top)),
            max(0, round(left)),
            min(rows, round(bottom)),
            min(columns, round(right)),
        )


class Scaling(NamedTuple):
    """The whole pixels behind a placement.

    Attributes:
        size: (rows, columns) of the whole picture once scaled.
        offset: (row, column) of the canvas' corner in the scaled picture; negative where padded.
    """

    size: Size
    offset: tuple[int, int]


def scaling(original_size: Size, canvas_size: Size, fit: Fit) -> Scaling:
    """Size and offset by which a picture is laid on a canvas.

    For a square canvas "crop" is torchvision's Resize(side) and CenterCrop(side): the short side
    becomes `side`, the long one int(side * long / short), the offset int(round(excess / 2)). For
    any other canvas the picture is scaled to just cover it. "pad" scales it to just fit inside.
    """
    rows, columns = original_size
    height, width = canvas_size
    if fit == "squash":
        return Scaling(canvas_size, (0, 0))
    if fit == "crop":
        if height * columns >= width * rows:
            size = (height, int(height * columns / rows))
        else:
            size = (int(width * rows / columns), width)
        # Python rounds halves to even, and so does the reference.
        return Scaling(size, (round((size[0] - height) / 2), round((size[1] - width) / 2)))
    if height * columns <= width * rows:
        size = (height, max(1, round(height * columns / rows)))
    else:
        size = (max(1, round(width * rows / columns)), width)
    return Scaling(size, (-((height - size[0]) // 2), -((width - size[1]) // 2)))


def place(original_size: Size, canvas_size: Size, fit: Fit) -> Placement:
    """The placement of a picture of `original_size` on a canvas.

    >>> place((100, 200), (224, 224), "crop").box
    (0.0, 50.0, 100.0, 150.0)
    >>> place((100, 200), (224, 224), "pad").box
    (-50.0, 0.0, 150.0, 200.0)
    """
    (scaled_rows, scaled_columns), (row, column) = scaling(original_size, canvas_size, fit)
    rows, columns = original_size
    height, width = canvas_size
    return Placement(
        original_size,
        canvas_size,
        (
            row * rows / scaled_rows,
            column * columns / scaled_columns,
            (row + height) * rows / scaled_rows,
            (column + width) * columns / scaled_columns,
        ),
    )
