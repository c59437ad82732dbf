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


def found(scores: Tensor) -> Tensor:
    """(C,) in [0, 1): whether enough images stand out for the class.

    An image stands out for the classes above the widest gap in the upper half of its standardized scores.
    """
    n, n_classes = scores.shape
    order = standardize(scores).sort(dim=1, descending=True)
    upper = max(2, n_classes // 2 + 1)
    widest = (order.values[:, : upper - 1] - order.values[:, 1:upper]).max(dim=1)
    above = torch.arange(n_classes) <= widest.indices[:, None]
    counted = order.indices[above & (widest.values > LEAD)[:, None]]
    images = torch.bincount(counted, minlength=n_classes).float()
    enough = max(ENOUGH, 0.1 * n / n_classes)
    return images.square() / (images.square() + enough**2)
