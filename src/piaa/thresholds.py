"""Where to cut: per-class thresholds from unlabelled scores, or from a few labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.mixtures import Mixture, fit_mixture, standardize

# Below this many images a class's own mixture is noise, and all classes are pooled.
LEAST_IMAGES = 20
# Gain of a class's mixture (nats an image) at which its own cut outweighs the pooled one 3 to 1.
TYPICAL_GAIN = 0.005
# Correlation over the images above which two classes are look-alikes; with few it must be beyond chance,
ALIKE, CHANCE = 0.5, 3.0
# and standard deviations by which one of them must stand out more in an image to claim it from the other.
CLAIM = 0.4
_CLASSES_AT_ONCE = 256
_POOLED = 2**20  # scores are enough for the mixture of all classes


@dataclass(frozen=True)
class Cuts:
    """Where the scores of C classes are cut, and what was seen on the way.

    Attributes:
        thresholds: (C,) float32.
        slope: of a sigmoid on the scores around them.
        prevalence: (C,) float32, share of the scores above.
    """

    thresholds: Tensor
    slope: float
    prevalence: Tensor

    def over(self, scores: Tensor) -> Cuts:
        """The thresholds of the first k classes, with slope and prevalence of other scores (n, k)."""
        thresholds = self.thresholds[: scores.shape[1]].clone()
        return Cuts(
            thresholds=thresholds,
            slope=_slope(scores - thresholds),
            prevalence=(scores >= thresholds).float().mean(0),
        )


def estimate_thresholds(scores: Tensor, held: Tensor | None = None) -> Cuts:
    """Thresholds without labels.

    scores is (n, C) float32 over n unlabelled images. The two-component mixture of a class's scores gives
    every image a probability to hold the class, and so every cut an expected F1; the best cut is taken. It
    lies below the point where both components are equally likely, as F1 wants. An image that a look-alike
    claims (a sheep among cows) is not expected to hold the class: a mixture of one class's scores counts it
    as a likely one. A second cut comes from one mixture of all classes' scores. The less a class's own scores
    split in two (an absent class is one lump of noise), the more the pooled cut counts, up to half.

    held (C,) in [0, 1] tells how far the images seem to hold a class at all. One that they do not hold
    must not be cut at the top of its own noise: it needs the pooled cut at least.
    """
    some = _spread_out(scores, _POOLED)
    level = float(_best_expected_f1(some, fit_mixture(some)))
    if len(scores) < LEAST_IMAGES:
        thresholds = torch.full((scores.shape[1],), level)
    else:
        own = fit_mixture(scores)
        trust = (0.5 + 0.5 * own.gain / (own.gain + TYPICAL_GAIN)).float()
        thresholds = trust * _best_expected_f1(scores, own, claimed(scores)) + (1 - trust) * level
    if held is not None:
        lifted = thresholds.clamp_min(level)
        thresholds = held * thresholds + (1 - held) * lifted
    prevalence = (scores >= thresholds).float().mean(0)
    return Cuts(thresholds, _slope(scores - thresholds), prevalence)


def _spread_out(scores: Tensor, most: int) -> Tensor:
    """About `most` of the scores (n, C), or all, evenly over images and classes, as one column."""
    step = -(-scores.numel() // most)
    while math.gcd(step, scores.shape[1]) > 1:  # else some classes would never be met
        step += 1
    return scores.reshape(-1, 1)[::step]


def _slope(margins: Tensor) -> float:
    """Scale of the sigmoid on (n, C) distances from the thresholds: a class's surest image gets 0.99.

    That is, on average over classes. The slope of the mixture's own log-odds would be several times as
    steep, and half of all scores would round to 1, where they rank no more.
    """
    surest = float(margins.amax(0).clamp_min(0).mean())
    return math.log(99) / surest if surest > 1e-6 else 1.0


def claimed(scores: Tensor) -> Tensor:
    """(n, C) bool: images in which a look-alike of the class stands out more than the class does."""
    z = standardize(scores)
    least = max(ALIKE, CHANCE / math.sqrt(len(scores)))
    lost = torch.zeros_like(scores, dtype=torch.bool)
    for start in range(0, scores.shape[1], _CLASSES_AT_ONCE):
        block = range(start, min(start + _CLASSES_AT_ONCE, scores.shape[1]))
        alike = z[:, start : block.stop].T @ z / len(z) > least
        alike[torch.arange(len(block)), torch.arange(start, block.stop)] = False
        for row in alike.any(1).nonzero().flatten().tolist():
            other = z[:, alike[row]].amax(1)
            lost[:, block[row]] = other > z[:, block[row]] + CLAIM
    return lost


def _best_expected_f1(scores: Tensor, mixture: Mixture, lost: Tensor | None = None) -> Tensor:
    """The score of each column of (n, C) to cut at for the highest expected F1, (C,) float32.

    lost (n, C) bool: images that do not hold the class, whatever the mixture says.
    """
    holds = torch.sigmoid(mixture.slope * (scores.double() - mixture.crossing)).nan_to_num(0.5)
    if lost is not None:
        holds = holds.masked_fill(lost, 0)
    order = scores.sort(dim=0, descending=True)
    hits = holds.gather(0, order.indices).cumsum(0)
    ranks = torch.arange(1, len(scores) + 1, dtype=torch.float64, device=scores.device)[:, None]
    place = (hits / (ranks + holds.sum(0))).argmax(0)
    return order.values.gather(0, place[None])[0].float()


def best_thresholds(scores: Tensor, labels: Tensor) -> Tensor:
    """Thresholds (C,) with the highest F1 on labelled scores (n, C); labels is (n, C) bool.

    A class without a positive image keeps NaN: nothing can be said of it. The cut lies halfway to the next
    lower score, so that it does not hang on one image.
    """
    order = scores.sort(dim=0, descending=True)
    hits = labels.gather(0, order.indices).double().cumsum(0)
    ranks = torch.arange(1, len(scores) + 1, dtype=torch.float64, device=scores.device)[:, None]
    f1 = 2 * hits / (ranks + labels.double().sum(0))
    # Equal scores cannot be cut apart: only the last of them is a place to cut.
    last = torch.ones_like(f1, dtype=torch.bool)
    last[:-1] = order.values[:-1] != order.values[1:]
    place = f1.masked_fill(~last, -1).argmax(0)
    at = order.values.gather(0, place[None])[0]
    below = order.values.gather(0, (place + 1).clamp_max(len(scores) - 1)[None])[0]
    middle = 0.5 * (at + below)
    # Between neighboring floats there is no middle, and it is rounded to one of the two.
    cut = torch.where(middle > below, middle, at)
    return torch.where(labels.any(0), cut, torch.full_like(cut, torch.nan))
