"""Gaussian discriminant analysis with a shared covariance, in closed form (stages I and III).

With class means mu_c, pooled within-class covariance S of n vectors in d dimensions and shrinkage
factor r, the precision is P = d [(n - 1) S + r tr(S) I]^-1, and the scores of x are W^T x + b with
W = P mu and b_c = -mu_c^T P mu_c / 2. Paper and published code have r = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.config import Covariance
from piaa.pvcl.members import Rows

_ROWS_AT_ONCE = 2048
_GRAM_BLOCK = 128


@dataclass(frozen=True)
class Classifier:
    """A linear classifier of unit patch features: scores = x @ weight + bias.

    Attributes:
        weight: (D, C) float32.
        bias: (C,) float32.
    """

    weight: Tensor
    bias: Tensor

    def scores(self, vectors: Tensor) -> Tensor:
        """(..., D) float32 to (..., C)."""
        return vectors @ self.weight + self.bias


def fit(
    vectors: Tensor | Rows,
    label: Tensor,
    text: Tensor,
    *,
    weights: Tensor | None = None,
    covariance: Covariance,
    shrinkage: float,
    log_prior: bool,
) -> Classifier:
    """The classifier of labeled vectors; a class without vectors takes its text prototype as mean.

    If no two vectors share a class there is no spread to measure and the precision is the
    identity, which makes the scores those of the nearest mean.

    Args:
        vectors: (N, D) float32 unit rows; N may be 0.
        label: (N,) int64 in [0, C).
        text: (C, D) float32 unit text prototypes.
        weights: (N,) positive weights of the vectors in their class mean; `None`: all equal.
            They do not enter the covariance.
        covariance, shrinkage, log_prior: as in `piaa.Config`.
    """
    n_classes, dim = text.shape
    means = _means(vectors, label, text, weights)
    n = len(vectors)
    scatter, remainder = _spread(vectors, label, means.float())
    if covariance == "sample" and n > 1:
        # Weighted means leave a remainder; the published code's torch.cov centers it away.
        pooled = (scatter - torch.outer(remainder, remainder) / n) / (n - 1)
    else:
        pooled = scatter / max(n, 1)
    trace = pooled.trace()
    # Spread below float32's resolution of the inputs is rounding, not covariance.
    if trace > torch.finfo(torch.float32).eps ** 2:
        identity = torch.eye(dim, dtype=torch.float64, device=text.device)
        factor = torch.linalg.cholesky((n - 1) * pooled + shrinkage * trace * identity)
        weight = dim * torch.cholesky_solve(means.T, factor)
    else:
        weight = means.T
    bias = -(means * weight.T).sum(dim=1) / 2
    if log_prior:
        bias = bias - math.log(n_classes)
    return Classifier(weight.float().contiguous(), bias.float())


def _means(vectors: Tensor | Rows, label: Tensor, text: Tensor, weights: Tensor | None) -> Tensor:
    """(C, D) float64 class means; the text prototype where a class has no vector."""
    n_classes, dim = text.shape
    sums = text.new_zeros(n_classes, dim, dtype=torch.float64)
    totals = sums.new_zeros(n_classes)
    weight = torch.ones_like(label, dtype=torch.float32) if weights is None else weights.float()
    # Sorted by class, a stretch of rows holds few classes, and one small product sums them all.
    order = label.int().argsort(stable=True)
    for start in range(0, len(label), _ROWS_AT_ONCE):
        part = order[start : start + _ROWS_AT_ONCE]
        classes, place = torch.unique_consecutive(label[part], return_inverse=True)
        member = place == torch.arange(len(classes), device=place.device)[:, None]
        weighted = member * weight[part]
        # In float64: a mean that is off by the rounding of thousands of sums leaves a spread where
        # all vectors are equal, and its inverse would be taken for a precision.
        sums[classes] += weighted.double() @ vectors[part].double()
        totals[classes] += weighted.sum(dim=1, dtype=torch.float64)
    return torch.where(totals[:, None] > 0, sums / totals[:, None], text.double())


def _spread(vectors: Tensor | Rows, label: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    """Of x - mean of its class: the sum of outer products (D, D), and the sum (D,), in float64.

    Products of centered vectors are rounded relative to the spread itself, so float32 does for a
    stretch of rows; only the sums of many stretches need more.
    """
    dim = means.shape[1]
    gram = means.new_zeros(dim, dim, dtype=torch.float64)
    total = gram.new_zeros(dim)
    for start in range(0, len(label), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        centered = vectors[part] - means.index_select(0, label[part])
        _add_lower_gram(gram, centered)
        total += centered.sum(dim=0)
    return gram.tril() + gram.tril(-1).T, total


def _add_lower_gram(gram: Tensor, rows: Tensor) -> None:
    """Add rows^T rows to the blocks of `gram` on and below the diagonal: the rest is a mirror."""
    for left in range(0, gram.shape[1], _GRAM_BLOCK):
        columns = rows[:, left : left + _GRAM_BLOCK]
        gram[left:, left : left + _GRAM_BLOCK] += rows[:, left:].T @ columns
