"""Two-component Gaussian mixtures with one shared variance, many columns at once.

Scores of a class over a collection are a mixture: images without it (many, low) and with it (few,
high). How well two components describe them tells how informative the scores are, and where the
components cross is a threshold that needs no labels. Components of free variance over-tag: the upper one
spreads over everything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

# EM may stop at a poor optimum: start from several shares of positives, keep the likeliest.
_STARTS = (0.02, 0.1, 0.3, 0.5)
_ROUNDS = 60
_LEAST_VARIANCE = 1e-4  # of scores standardized to variance 1: keeps a component off single points


@dataclass(frozen=True)
class Mixture:
    """One mixture per column, all (C,) float64, in the units of the scores.

    Attributes:
        low, high: component means, low <= high.
        deviation: shared standard deviation.
        share: weight of the high component, in (0, 1).
        gain: mean log-likelihood above that of a single Gaussian, in nats; never negative.
    """

    low: Tensor
    high: Tensor
    deviation: Tensor
    share: Tensor
    gain: Tensor

    @property
    def slope(self) -> Tensor:
        """Of the log posterior odds of the high component, which are linear in the score."""
        return (self.high - self.low) / self.deviation.square()

    @property
    def crossing(self) -> Tensor:
        """The score at which both components are equally likely; between or around the means."""
        return 0.5 * (self.low + self.high) - torch.logit(self.share) / self.slope


def fit_mixture(scores: Tensor) -> Mixture:
    """EM on the columns of scores (n, C). A constant column gives two equal components."""
    x = scores.double()
    mean, spread = x.mean(0), x.std(0, unbiased=False)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    x = (x - mean) / spread
    best: list[Tensor] | None = None
    for start in _STARTS:
        found = _em(x, start)
        if best is None:
            best = found
            continue
        better = found[-1] > best[-1]
        best = [torch.where(better, new, old) for new, old in zip(found, best, strict=True)]
    low, high, variance, share, gain = best or _em(x, 0.5)
    return Mixture(
        low=low * spread + mean,
        high=high * spread + mean,
        deviation=variance.sqrt() * spread,
        share=share,
        gain=gain.clamp_min(0),
    )


def _em(x: Tensor, start: float) -> list[Tensor]:
    """From the top `start` of each standardized column: low, high, variance, share, gain."""
    n = len(x)
    high = x.topk(max(1, round(start * n)), dim=0).values.mean(0)
    low = -start / (1 - start) * high
    share = torch.full_like(high, start)
    variance = torch.full_like(high, 0.5)
    edge = 0.5 / n  # a component never dies out entirely, which would leave it without a mean
    for _ in range(_ROUNDS):
        odds = torch.logit(share) + ((x - low).square() - (x - high).square()) / (2 * variance)
        belong = torch.sigmoid(odds)
        total = belong.sum(0).clamp(edge, n - edge)
        share = (total / n).clamp(edge, 1 - edge)
        high = (belong * x).sum(0) / total
        low = ((1 - belong) * x).sum(0) / (n - total)
        within = belong * (x - high).square() + (1 - belong) * (x - low).square()
        variance = within.mean(0).clamp_min(_LEAST_VARIANCE)
    likelihood = (
        torch.logaddexp(
            share.log() - (x - high).square() / (2 * variance),
            (1 - share).log() - (x - low).square() / (2 * variance),
        )
        - 0.5 * (2 * math.pi * variance).log()
    )
    single = -0.5 * (x.square() + math.log(2 * math.pi))
    gain = (likelihood - single).mean(0)
    swapped = low > high
    low, high = torch.where(swapped, high, low), torch.where(swapped, low, high)
    return [low, high, variance, torch.where(swapped, 1 - share, share), gain]
