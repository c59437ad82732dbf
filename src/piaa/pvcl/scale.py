"""Softmax scales matched to the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piaa.errors import InputError

_LEAST, _MOST = 2.0**-20, 2.0**20
_ROUNDING = 1e-6


def match_scale(logits: Tensor, *, entropy: float = 0.8) -> float:
    """The scale s at which the mean entropy of softmax(s * logits) is `entropy` * log C.

    Bisection in log s, to 1e-6 relative. With one class every scale gives entropy 0, and the
    answer is 1. Classes with the same scores leave an entropy that no scale undoes: `entropy` is
    then a fraction of the way from there to log C.

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
    equal = rows >= -_ROUNDING * rows.abs().amax()
    least, most = float(equal.sum(dim=1).log().mean()), math.log(rows.shape[1])
    target = least + entropy * (most - least)
    low, high = _LEAST, _MOST
    if not _mean_entropy(rows, high) < target < _mean_entropy(rows, low):
        raise InputError(
            f"No scale between {low:g} and {high:g} brings the mean entropy to {target:.4g}: the "
            "scores of different classes are (nearly) equal on this sample. Look for class names "
            "that are the same, or for constant features."
        )
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        if _mean_entropy(rows, middle) > target:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


def _mean_entropy(rows: Tensor, scale: float) -> float:
    logits = rows * scale
    log_z = logits.logsumexp(dim=1)
    expected = (logits.softmax(dim=1) * logits).sum(dim=1)
    return float((log_z - expected).double().mean())
