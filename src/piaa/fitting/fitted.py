"""What a finished fit is: a scorer, and what there is to tell about how it came about."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.pvcl import Report as BankReport
from piaa.scoring import Scorer


@dataclass(frozen=True)
class Retained:
    """Where the vectors of the banks came from, each (N,) int64: class, id of the image, its cell."""

    label: Tensor
    image: Tensor
    cell: Tensor

    def marks(self, column: int, ids: Tensor, n_cells: int) -> Tensor:
        """Which cells of the images with those ids (B,) are in a class's bank, (B, n_cells) bool."""
        mine = self.label == column
        row, found = (ids[:, None] == self.image[mine]).nonzero(as_tuple=True)
        marks = torch.zeros(len(ids), n_cells, dtype=torch.bool)
        marks[row, self.cell[mine][found]] = True
        return marks


@dataclass(frozen=True)
class Fitted:
    """A finished fit.

    Attributes:
        prevalence: (C,) float32, share of the images above each class's threshold.
        group: (C + R,) float32 in [0, 1], how far a class was learnt from a group of patches.
        unnamed: share of the images that other names than the classes' fit best; None without such names.
    """

    scorer: Scorer
    bank: BankReport
    retained: Retained
    prevalence: Tensor
    group: Tensor
    n_images: int
    unnamed: float | None = None
