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
_NUMBERS_AT_ONCE = 2**20
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


def standardize(scores: Tensor) -> Tensor:
    """Columns of (n, C) with mean 0 and variance 1; a constant column becomes 0."""
    return (scores - scores.mean(0)) / scores.std(0, unbiased=False).clamp_min(1e-6)


def fit_mixture(scores: Tensor) -> Mixture:
    """EM on the columns of scores (n, C). A constant column gives two equal components."""
    x = scores.double()
    mean, spread = x.mean(0), x.std(0, unbiased=False)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    x = (x - mean) / spread
    at_once = max(1, _NUMBERS_AT_ONCE // (len(_STARTS) * len(x)))
    parts = [_em(block) for block in torch.split(x, at_once, dim=1)]
    low, high, variance, share, gain = (torch.cat(p) for p in zip(*parts, strict=True))
    # One Gaussian describes a constant perfectly; two have nothing to add.
    gain = torch.where(x.any(0), gain.clamp_min(0), 0)
    return Mixture(
        low=low * spread + mean,
        high=high * spread + mean,
        deviation=variance.sqrt() * spread,
        share=share,
        gain=gain,
    )


def _em(x: Tensor) -> list[Tensor]:
    """Of standardized columns (n, C): low, high, variance, share, gain of the likeliest of all starts."""
    n = len(x)
    starts = torch.tensor(_STARTS, dtype=x.dtype, device=x.device)[:, None, None]
    tops = [x.topk(max(1, round(start * n)), dim=0).values.mean(0) for start in _STARTS]
    high = torch.stack(tops)[:, None]  # (starts, 1, C), as all that follows
    low = -starts / (1 - starts) * high
    share = starts.expand_as(high)
    variance = torch.full_like(high, 0.5)
    edge = 0.5 / n  # a component never dies out entirely, which would leave it without a mean
    sums, squares = x.sum(0), x.square().sum(0)
    for _ in range(_ROUNDS):
        # With one variance the odds are linear in x, and its moments give the spread: one pass over x.
        slope = (high - low) / variance
        odds = torch.addcmul(torch.logit(share) - 0.5 * slope * (low + high), x, slope)
        belong = odds.sigmoid_()
        total = belong.sum(1, keepdim=True).clamp(edge, n - edge)
        inside = belong.mul_(x).sum(1, keepdim=True)
        share = (total / n).clamp(edge, 1 - edge)
        high, low = inside / total, (sums - inside) / (n - total)
        within = squares - total * high.square() - (n - total) * low.square()
        variance = (within / n).clamp_min(_LEAST_VARIANCE)
    likelihood = (
        torch.logaddexp(
            share.log() - (x - high).square() / (2 * variance),
            (1 - share).log() - (x - low).square() / (2 * variance),
        )
        - 0.5 * (2 * math.pi * variance).log()
    )
    single = -0.5 * (x.square() + math.log(2 * math.pi))
    gain = (likelihood - single).mean(1, keepdim=True)
    swapped = low > high
    low, high = torch.where(swapped, high, low), torch.where(swapped, low, high)
    share = torch.where(swapped, 1 - share, share)
    best = gain.argmax(0, keepdim=True)
    return [part.gather(0, best)[0, 0] for part in (low, high, variance, share, gain)]
