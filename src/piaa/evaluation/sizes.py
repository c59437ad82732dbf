"""What methods make of small and of large objects, where a data set has boxes.

An image counts as a positive of "small" for a class if the class's largest box in it covers less than 5 % of
the picture (about 3 x 3 cells of a 14 x 14 grid), of "large" from 20 % on (about 6 x 6). Negatives are all
images without the class; positives of another size do not count. The paper's own scale table is of chosen
classes instead, whole, and is reproduced by `piaa reproduce scale`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from piaa.datasets import Labels, Shares
from piaa.evaluation.metrics import average_precisions

SMALL, LARGE = 0.05, 0.2
BOUNDS: Final = {"small": (0.0, SMALL), "medium": (SMALL, LARGE), "large": (LARGE, np.inf)}


def labels_by_size(labels: Labels, shares: Shares) -> dict[str, Labels]:
    """For each size, labels (n, C) whose positives have it; -1 where the class has another size."""
    found = {}
    for size, (low, high) in BOUNDS.items():
        fits = (shares >= low) & (shares < high)  # NaN, a size not known, fits nowhere
        found[size] = np.where((labels == 1) & ~fits, -1, labels).astype(np.int8)
    return found


def map_by_size(scores: ArrayLike, labels: Labels, shares: Shares) -> dict[str, float]:
    """mAP of each size, over the classes that have such positives; NaN if none has."""
    result = {}
    for size, truth in labels_by_size(labels, shares).items():
        each = average_precisions(scores, truth)
        known = each[~np.isnan(each)]
        result[size] = float(known.mean()) if len(known) else float("nan")
    return result
