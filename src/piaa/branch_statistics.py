"""What the scores of a branch tell by themselves, without a label.

Branch scores are (n, C) float32: n images, C classes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from piaa.mixtures import fit_mixture, standardize

PRIOR_GAIN = 2.0  # nats over all images; with few images no ratio is believed
NULL_GAIN = 1.2  # what two components gain on pure noise, in nats over all images
LEAD = 1.0  # a gap below this many standard deviations finds nothing
ENOUGH = 16.0  # images that a class is found in, at which what was learnt from them counts half
FEW = 50.0  # images that are few by half
TAIL = 0.02  # share of images that form a class's upper tail


def ramp(values: Tensor, ends: tuple[float, float]) -> Tensor:
    """0 below the first end, 1 above the second, straight between."""
    return ((values - ends[0]) / (ends[1] - ends[0])).clamp(0, 1)


def agreement(first: Tensor, second: Tensor) -> Tensor:
    """Correlation of two (n, C) class by class, (C,)."""
    return (standardize(first) * standardize(second)).mean(0)


def gain(scores: Tensor) -> Tensor:
    """Nats an image that two components gain over one, (C,) float32, less what noise would gain."""
    return (fit_mixture(scores).gain - NULL_GAIN / len(scores)).clamp_min(0).float()


def ratio(gains: Tensor, to: Tensor, n: float) -> Tensor:
    """Of gains from n images; 1 where there is next to nothing on either side."""
    return (gains + PRIOR_GAIN / n) / (to + PRIOR_GAIN / n)


def mean_ratio(gains: Tensor, to: Tensor, n: int) -> Tensor:
    """() of the means of gains (C,), which are known as well as one from sqrt(C) times the images."""
    return ratio(gains.mean(), to.mean(), n * len(gains) ** 0.5)


def relative(values: Tensor) -> Tensor:
    """To those of the upper quarter of the classes, in [0, 1]."""
    return (values.clamp_min(0) / values.quantile(0.75).clamp_min(1e-3)).clamp(0, 1)


def few(n: int) -> float:
    """In [0, 1]: from 1 at no images to 0."""
    return 1 / (1 + (n / FEW) ** 2)


def mean_gap(scores: Tensor) -> float:
    """Mean over images of the widest gap between standardized scores."""
    return float(_gaps(scores)[1].mean())


def found(scores: Tensor) -> Tensor:
    """(C,) in [0, 1): whether enough images stand out for the class."""
    n, n_classes = scores.shape
    order, gap, place = _gaps(scores)
    above = (torch.arange(n_classes) <= place[:, None]) & (gap > LEAD)[:, None]
    images = torch.bincount(order[above], minlength=n_classes).float()
    enough = max(ENOUGH, 0.1 * n / n_classes)
    return images.square() / (images.square() + enough**2)


def _gaps(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each image: its classes from best to worst, the widest gap in the upper half, its place."""
    order = standardize(scores).sort(dim=1, descending=True)
    upper = max(2, scores.shape[1] // 2 + 1)
    steps = order.values[:, : upper - 1] - order.values[:, 1:upper]
    widest = steps.max(dim=1)
    return order.indices, widest.values, widest.indices


def tail(scores: Tensor) -> Tensor:
    """(C,): how far a class's highest images are above its middle one, in standard deviations."""
    top = scores.topk(tail_count(len(scores)), dim=0).values.mean(0)
    spread = scores.std(0, unbiased=False).clamp_min(1e-6)
    return (top - scores.median(0).values) / spread


def tail_count(n: int) -> int:
    """Of n images, how many form a class's upper tail."""
    return min(n, max(5, int(TAIL * n)))
