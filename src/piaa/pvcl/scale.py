"""Softmax scales matched to the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piaa.errors import InputError

_LEAST, _MOST = 2.0**-60, 2.0**20  # classes of nearly equal patches each are far apart
_ROUNDING = 1e-6
_PRECISION = 1e-6
_MOST_STEPS = 60  # some six do, unless rounding of a few rows keeps the last digits from settling
_NUMBERS_AT_ONCE = 2**18  # stay in a core's cache


def match_scale(logits: Tensor, *, entropy: float = 0.8) -> float:
    """The scale s at which the mean entropy of softmax(s * logits) is `entropy` * log C.

    Newton's method in log s within a bracket, to 1e-6 relative. With one class every scale gives
    entropy 0, and the answer is 1. Classes with the same scores leave an entropy that no scale
    undoes: `entropy` is then a fraction of the way from there to log C.

    Args:
        logits: (..., C) finite floating scores of a sample of patches or images.
        entropy: fraction of the largest entropy, in (0, 1).

    >>> round(match_scale(torch.tensor([[1.0, 0.0]]), entropy=0.5), 3)
    2.09
    """
    if not 0 < entropy < 1:
        raise InputError(f"entropy must lie between 0 and 1, got {entropy!r}.")
    if logits.ndim < 1 or logits.numel() == 0 or not torch.isfinite(logits).all():
        raise InputError(
            f"logits must be finite and hold at least one row, got shape {tuple(logits.shape)}."
        )
    rows = logits.detach().float().reshape(-1, logits.shape[-1])
    if rows.shape[1] == 1:
        return 1.0
    rows = rows - rows.amax(dim=1, keepdim=True)
    # The same class twice: products of equal columns may still differ by a rounding.
    equal = rows >= _ROUNDING * rows.amin(dim=1, keepdim=True)
    least, most = float(equal.sum(dim=1).log().mean()), math.log(rows.shape[1])
    target = least + entropy * (most - least)
    low, high = _LEAST, _MOST
    if not _entropy(rows, high)[0] < target < _entropy(rows, low)[0]:
        raise InputError(
            f"No scale between {low:g} and {high:g} brings the mean entropy to {target:.4g}: the "
            "scores of different classes are (nearly) equal on this sample. Look for class names "
            "that are the same, or for constant features."
        )
    scale = 1.0
    for _ in range(_MOST_STEPS):
        found, fall = _entropy(rows, scale)
        step = (found - target) / max(fall, 1e-12)
        if abs(step) < _PRECISION:
            break
        low, high = (scale, high) if step > 0 else (low, scale)
        scale *= math.exp(min(max(step, -2.0), 2.0))
        if not low < scale < high:
            scale = math.sqrt(low * high)
    return scale


def _entropy(rows: Tensor, scale: float) -> tuple[float, float]:
    """Mean entropy of softmax(scale * rows), rows at most 0, and how fast it falls with log scale."""
    total = fall = 0.0
    for some in torch.split(rows, max(1, _NUMBERS_AT_ONCE // rows.shape[1])):
        logits = some * scale
        odds = logits.exp()
        count = odds.sum(dim=1)
        mean = odds.mul_(logits).sum(dim=1) / count
        square = odds.mul_(logits).sum(dim=1) / count
        total += float((count.log() - mean).sum(dtype=torch.float64))
        fall += float((square - mean.square()).sum(dtype=torch.float64))
    return total / len(rows), fall / len(rows)
