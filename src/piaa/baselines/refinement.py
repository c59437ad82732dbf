"""TagCLIP's refinement of patch scores, for all classes at once.

Patch scores of one picture are (M, C), row-major over a grid of (rows, columns). Where the published
code draws contours class by class, components are labelled here for all classes together.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# The published code draws contours of maps in whole numbers from 0 to 255.
_LEVELS = 255


def dual_mask_refine(coarse: Tensor, affinity: Tensor, grid: tuple[int, int]) -> Tensor:
    """DMAR: scores spread by attention, first to find where each class is, then from there alone.

    Zeroing the columns of the affinity outside a class's boxes equals zeroing the scores there,
    so that one product serves all classes.

    Args:
        coarse: (M, C) probabilities.
        affinity: (M, M), of which row i says which patches speak for patch i.
    """
    spread = _unit_range(affinity @ coarse)
    above = (spread * _LEVELS).floor() > (spread.mean(dim=0) * _LEVELS).floor()
    boxes = component_boxes(above.T.reshape(-1, *grid))
    return affinity @ (coarse * boxes.flatten(1).T)


def component_boxes(masks: Tensor) -> Tensor:
    """Union of the bounding boxes of each mask's 8-connected components: (C, rows, columns) bool.

    As in the published code, boxes end before the last row and the last column of the grid.
    """
    count, rows, columns = masks.shape
    cells = torch.arange(rows * columns, device=masks.device).view(rows, columns)
    roots, inside = _component_roots(masks), masks.flatten(1)

    def extreme(values: Tensor, how: str) -> Tensor:
        """The least or greatest value (rows, columns) in the component of each root, (C, M)."""
        worst = rows * columns if how == "amin" else -1
        spread = values.flatten().expand(count, -1).where(inside, worst)
        return torch.full_like(spread, worst).scatter_reduce(1, roots, spread, how)

    top, left = extreme(cells // columns, "amin"), extreme(cells % columns, "amin")
    bottom = (extreme(cells // columns, "amax") + 1).clamp_max(rows - 1)
    right = (extreme(cells % columns, "amax") + 1).clamp_max(columns - 1)
    mask, place = (inside & (roots == cells.flatten())).nonzero(as_tuple=True)
    top, left, bottom, right = (side[mask, place] for side in (top, left, bottom, right))
    # A box is +1 and -1 at its corners; sums along both axes fill it.
    corners = torch.zeros(count, rows + 1, columns + 1, device=masks.device, dtype=torch.int32)
    for row, column, sign in (
        (top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1),
    ):  # fmt: skip
        corners.index_put_((mask, row, column), corners.new_full(row.shape, sign), accumulate=True)
    return corners.cumsum(1).cumsum(2)[:, :-1, :-1] > 0


def _component_roots(masks: Tensor) -> Tensor:
    """For each cell of masks (C, rows, columns) bool the largest index of its component, (C, M).

    Cells outside a mask are their own. Every round, each cell tells its root of the largest root
    next to it, then all look up where their root has moved: as many rounds as the logarithm of what
    steps from cell to cell would take.
    """
    count, rows, columns = masks.shape
    inside = masks.flatten(1)
    roots = torch.arange(rows * columns, device=masks.device).expand(count, -1)
    while True:
        # Indices are below 2^24, so float32 holds them; outside of a mask nothing is larger.
        shown = roots.where(inside, -1).view(masks.shape).float()
        near = F.max_pool2d(shown, 3, stride=1, padding=1).flatten(1).long().where(inside, roots)
        moved = roots.scatter_reduce(1, roots, near, "amax")
        moved = moved.gather(1, moved.gather(1, roots))
        if torch.equal(moved, roots):
            return roots
        roots = moved


@dataclass(frozen=True)
class Candidates:
    """Classes to look at again, K of them.

    Attributes:
        classes: Column of each.
        boxes: (top, left, bottom, right) of each in cells of the grid.
        masks: (rows, columns) bool of each box: where in it the class is.
    """

    classes: list[int]
    boxes: list[tuple[int, int, int, int]]
    masks: list[Tensor]


def find_candidates(
    refined: Tensor, grid: tuple[int, int], *, n_classes: int, level: float
) -> Candidates:
    """Classes whose best patch is above `level` of the range of all scores, and where they are.

    As in the published code, boxes end before the last row and the last column of the grid. A
    class that is nowhere else has no box and is left out; there the published code skips all
    classes after it, too.

    Args:
        refined: (M, C + background) scores; only the first `n_classes` columns can be candidates.
    """
    low, high = refined.min(), refined.max()
    found = (refined[:, :n_classes].amax(dim=0) > low + level * (high - low)).nonzero().flatten()
    masks = (_unit_range(refined[:, found]) > 0.5).T.reshape(-1, *grid).cpu()
    result = Candidates([], [], [])
    for column, mask in zip(found.tolist(), masks, strict=True):
        down, across = (mask.any(dim=axis).nonzero().flatten() for axis in (1, 0))
        if not len(down):
            continue
        top, left = int(down[0]), int(across[0])
        bottom = min(int(down[-1]) + 1, grid[0] - 1)
        right = min(int(across[-1]) + 1, grid[1] - 1)
        if bottom > top and right > left:
            result.classes.append(column)
            result.boxes.append((top, left, bottom, right))
            result.masks.append(mask[top:bottom, left:right])
    return result


def _unit_range(scores: Tensor) -> Tensor:
    """Columns of (M, C) brought to 0..1; a constant one becomes 0."""
    low = scores.amin(dim=0)
    return ((scores - low) / (scores.amax(dim=0) - low)).nan_to_num(0)
