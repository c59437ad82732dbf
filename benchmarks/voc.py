"""A split of a VOC devkit as benchmarks want it: paths and labels."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from piaa.datasets import open_dataset
from piaa.datasets.names import VOC as NAMES

__all__ = ["NAMES", "read_split"]


def read_split(root: Path, split: str, limit: int | None = None) -> tuple[list[Path], Tensor]:
    """Paths of `trainval` or `test`, and labels (n, 20); those of `trainval`, not to be seen, are all 0."""
    dataset = open_dataset("voc2007", root, partial=True).limited(limit)
    if split == dataset.learn.name:
        return list(dataset.learn.paths), torch.zeros(len(dataset.learn), len(NAMES))
    return list(dataset.test.paths), torch.from_numpy(dataset.labels).long()
