"""Values of patches at their place in the picture, and pictures of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from piaa.errors import InputError
from piaa.images import ImageSource, Placement, open_image

# Dark violet over red to pale yellow. Computed so that lightness rises evenly (CIE L* 12 to 94, in
# steps of 10) with the most chroma that sRGB holds: equal differences look equal, also in grey.
COLORS: Final = (
    (37, 1, 104),
    (85, 0, 131),
    (135, 19, 134),
    (182, 42, 122),
    (224, 70, 102),
    (254, 106, 72),
    (255, 157, 80),
    (255, 200, 110),
    (255, 239, 146),
)


def on_image(
    values: Tensor,
    grid: tuple[int, int],
    placements: Sequence[Placement],
    *,
    unseen: float = math.nan,
) -> Tensor:
    """Values of an image's patches at the geometry of its original picture; crop and pad undone.

    Within a window the values are bilinear between the centers of its cells, and constant beyond
    the outermost. Where windows overlap they are averaged, with a weight that falls to 0 over the
    last cell before a window's edge: no seams, and the constant margins hardly count. Only tiles
    without overlap still meet at such margins, where a crop kept the whole picture from them.

    Takes 8 bytes a pixel of the original picture.

    Args:
        values: (windows * rows * columns,) finite numbers, window by window, each row-major.
        grid: (rows, columns) of each window. Its cells divide the canvas evenly.
        placements: of the windows of this one image, in order; a single one if it was not tiled.
        unseen: what pixels get that no window saw (cut off by a crop).

    Returns:
        (H, W) float32 on the CPU.
    """
    original = _check_placements(grid, placements)
    expected = len(placements) * grid[0] * grid[1]
    if values.shape != (expected,) or not values.isfinite().all():
        raise InputError(
            f"values must be {expected} finite numbers, for {len(placements)} windows of "
            f"{grid[0]} x {grid[1]} cells, not {tuple(values.shape)} with "
            f"{int((~values.isfinite()).sum())} that are not finite."
        )
    cells = values.detach().to(device="cpu", dtype=torch.float32).view(len(placements), *grid)
    total, weight = torch.zeros(original), torch.zeros(original)
    for window, placement in zip(cells, placements, strict=True):
        top, left, bottom, right = placement.box
        rows, row_mix, row_weight = _along(original[0], top, bottom, grid[0])
        columns, column_mix, column_weight = _along(original[1], left, right, grid[1])
        # Both interpolation and weight are products over the axes: two small matrices for each,
        # multiplied into place, and no picture-sized copy.
        total[rows, columns].addmm_(row_mix @ window, column_mix.T)
        weight[rows, columns].addr_(row_weight, column_weight)
    return total.div_(weight).masked_fill_(weight == 0, unseen)


def cell_boxes(grid: tuple[int, int], placements: Sequence[Placement]) -> Tensor:
    """The part of the original picture under each patch, (windows * rows * columns, 4) float32.

    (top, left, bottom, right) in pixels, in the order of the patches. Clipped to the picture:
    cells that lie wholly in the padding have no area. Arguments as in `on_image`.
    """
    height, width = _check_placements(grid, placements)
    boxes = []
    for placement in placements:
        rows, columns = placement.to_original(
            torch.linspace(0, placement.canvas_size[0], grid[0] + 1, dtype=torch.float64),
            torch.linspace(0, placement.canvas_size[1], grid[1] + 1, dtype=torch.float64),
        )
        rows, columns = rows.clamp(0, height), columns.clamp(0, width)
        top, left = torch.meshgrid(rows[:-1], columns[:-1], indexing="ij")
        bottom, right = torch.meshgrid(rows[1:], columns[1:], indexing="ij")
        boxes.append(torch.stack([top, left, bottom, right], dim=-1).flatten(0, 1))
    return torch.cat(boxes).float()


def overlay(
    image: ImageSource,
    heat: Tensor,
    *,
    alpha: float = 0.5,
    limits: tuple[float, float] | None = None,
) -> Image.Image:
    """The picture under the colors of a heat map, dark violet (low) to pale yellow (high).

    Args:
        image: the original picture; it is turned upright, as for the encoder.
        heat: (H, W) of the upright picture, from `on_image`. NaN leaves the picture as it is.
        alpha: share of the color, in [0, 1].
        limits: values of the first and the last color; what is beyond gets these too. By default
            the least and the greatest value of `heat`: pass limits to compare several maps.
    """
    picture = open_image(image)
    _check_share("alpha", alpha)
    if heat.shape != (picture.height, picture.width) or heat.isinf().any():
        raise InputError(
            f"heat must have the shape of the upright picture, {(picture.height, picture.width)}, "
            f"and no infinity, not {tuple(heat.shape)} with {int(heat.isinf().sum())} infinities. "
            "Bring patch values to it with on_image."
        )
    values = heat.detach().cpu().float().numpy()
    seen = ~np.isnan(values)
    if not seen.any():
        return picture
    low, high = limits or (float(values[seen].min()), float(values[seen].max()))
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise InputError(f"limits must be two finite numbers, the lower first, not {limits}.")
    levels = np.subtract(values, low, dtype=np.float32)
    levels *= 255 / (high - low) if high > low else 0
    np.nan_to_num(levels, copy=False)
    indices = Image.fromarray(levels.round(out=levels).clip(0, 255, out=levels).astype(np.uint8))
    indices.putpalette(_palette().tobytes())
    mixed = Image.blend(picture, indices.convert("RGB"), alpha)
    return Image.composite(mixed, picture, Image.fromarray(seen))


def fade(image: ImageSource, boxes: Tensor, *, dim: float = 0.25) -> Image.Image:
    """The picture with the boxes as they are and the rest darkened.

    Args:
        image: the original picture; it is turned upright, as for the encoder.
        boxes: (N, 4) from `cell_boxes`, such as those of the patches a class retained; none is
            allowed. A pixel is inside if its center is.
        dim: brightness of the rest, in [0, 1].
    """
    picture = open_image(image)
    _check_share("dim", dim)
    if boxes.dim() != 2 or boxes.shape[1] != 4 or not boxes.isfinite().all():
        raise InputError(
            "boxes must be finite (top, left, bottom, right) in rows, shape (N, 4), not "
            f"{tuple(boxes.shape)}: take them from cell_boxes."
        )
    bright = np.zeros((picture.height, picture.width), dtype=bool)
    edges = (boxes.detach().cpu().double() - 0.5).ceil().clamp(min=0).long()
    for top, left, bottom, right in edges.tolist():
        bright[top:bottom, left:right] = True
    faded = Image.blend(Image.new("RGB", picture.size), picture, dim)
    return Image.composite(picture, faded, Image.fromarray(bright))


def _along(length: int, first: float, last: float, cells: int) -> tuple[slice, Tensor, Tensor]:
    """One axis of a window that reaches from `first` to `last` in a picture of `length` pixels.

    Returns:
        the n pixels whose centers it holds; (n, cells) float32 weights of the cells in each, times
        the pixel's own weight; (n,) that weight in (0, 1].
    """
    start = max(0, math.ceil(first - 0.5))
    stop = max(start, min(length, math.ceil(last - 0.5)))
    centers = torch.arange(start, stop, dtype=torch.float64) + 0.5
    at = (centers - first) * (cells / (last - first))
    # In cells from the window's nearer edge; a center right on it still needs some weight.
    weight = torch.minimum(at, cells - at).clamp(1e-6, 1)
    mix = (1 - ((at - 0.5).clamp(0, cells - 1)[:, None] - torch.arange(cells)).abs()).clamp(min=0)
    return slice(start, stop), (mix * weight[:, None]).float(), weight.float()


def _palette() -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """(256, 3) colors, linear between those of the table."""
    table = np.array(COLORS, dtype=np.float64)
    places = np.linspace(0, len(table) - 1, 256)
    channels = [np.interp(places, np.arange(len(table)), table[:, c]) for c in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def _check_placements(grid: tuple[int, int], placements: Sequence[Placement]) -> tuple[int, int]:
    """(rows, columns) of the one picture that all windows show."""
    sizes = sorted({placement.original_size for placement in placements})
    if len(sizes) != 1:
        raise InputError(
            f"placements must be those of the windows of one picture, not {len(placements)} of "
            f"pictures of {sizes}. Features of pixel tensors have none: encode pictures, and pass "
            "placements[i * windows : (i + 1) * windows] for image i."
        )
    if min(grid) < 1:
        raise InputError(f"grid must be (rows, columns) of at least 1, not {grid}.")
    return sizes[0]


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} must lie in [0, 1], not {value!r}.")
