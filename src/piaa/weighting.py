"""How far to trust each branch of evidence, without a label.

Three branches score every image for every class, as log-odds: T, the text prototypes on patches; G, the
classifier learnt from the banks on patches; g, the text prototypes on the global vector. Each may be the best
one or useless, depending on encoder and collection. What tells them apart on unlabelled images:

- **Against the global branch: bimodality.** Scores that know a class split into images with and without
  it; scores that do not are one Gaussian. The mean log-likelihood gain of two components over one, over
  classes, is compared between g and T. (The lead of the best class over the second, which would be simpler,
  fails where images hold many labels.)
- **Against the learnt branch: the widest gap.** Bank clusters are always bimodal, right or wrong, so
  bimodality cannot judge them. But a classifier that is unsure confuses classes within an image: the widest
  gap between an image's sorted, standardized scores shrinks. It is compared between X and T, where X is G
  *cross-fitted*: every image is scored by the banks of the other half of the collection. Judged on images
  whose own patches are in the banks, any classifier looks sure.
- **Class by class: evidence.** G counts for a class as far as X finds images of it: a class that is absent
  from the collection has none and stays with the text.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.mixtures import fit_mixture

# None of these is set per data set; docs/method.md shows how little the result depends on each.
GLOBAL_SHARE = 0.5  # weight of g where it is as informative as T
LEARNED_SHARE = 0.5  # weight of G where it is trusted and has evidence
MIDPOINT = 0.12  # ratio of gains (g to T) at which g gets half of its share
SHARPNESS = 3.0  # how fast it falls below
PRIOR_GAIN = 2.0  # nats over all images; with few images no ratio is believed and g keeps its share
NULL_GAIN = 1.2  # what two components gain on pure noise, in nats over all images
DOUBT = 20.0  # exponent on the ratio of gaps, which is near 1: 0.95 leaves 36 %, 0.9 leaves 12 %
LEAD = 1.0  # a gap below this many standard deviations finds nothing
TAIL = 0.02  # share of images that form a class's upper tail
TAIL_DOUBT = 12.0  # exponent on the ratio of tails, X to T, where X's is the shorter


@dataclass(frozen=True)
class BranchWeights:
    """Weights (C,) float32 of the three branches; they sum to 1 for every class.

    Attributes:
        text, learned, cls: of T, G and g.
        evidence: (C,) float32 in [0, 1], how far the collection shows the class at all.
    """

    text: Tensor
    learned: Tensor
    cls: Tensor
    evidence: Tensor

    def fuse(self, text: Tensor, learned: Tensor, cls: Tensor) -> Tensor:
        """Weighted sum of branch scores (B, C)."""
        return self.text * text + self.learned * learned + self.cls * cls


def weigh(text: Tensor, crossfit: Tensor, cls: Tensor) -> BranchWeights:
    """Weights from the branch scores (n, C) float32 of n unlabelled images: T, X and g."""
    n, n_classes = text.shape
    if n < 4 or n_classes < 2:
        return even_weights(n_classes)
    cls_weight = _global_weight(_information(text), _information(cls), n)
    trust = min(1.0, _mean_gap(crossfit) / max(_mean_gap(text), 1e-6)) ** DOUBT
    evidence = _evidence(text, crossfit)
    learned = LEARNED_SHARE * trust * evidence
    glob = torch.full((n_classes,), cls_weight)
    return BranchWeights(1 - learned - glob, learned, glob, evidence)


def even_weights(n_classes: int) -> BranchWeights:
    """Text on patches and on the whole image, half each: before any fit, or with next to no images."""
    half, none = torch.full((n_classes,), 0.5), torch.zeros(n_classes)
    return BranchWeights(half, none, half, none)


def standardize(scores: Tensor) -> Tensor:
    """Columns of (n, C) with mean 0 and variance 1; a constant column becomes 0."""
    return (scores - scores.mean(0)) / scores.std(0, unbiased=False).clamp_min(1e-6)


def _information(scores: Tensor) -> float:
    return max(0.0, float(fit_mixture(scores).gain.mean()) - NULL_GAIN / len(scores))


def _global_weight(text: float, cls: float, n: int) -> float:
    ratio = (cls + PRIOR_GAIN / n) / (text + PRIOR_GAIN / n)
    return float(GLOBAL_SHARE / (1 + (MIDPOINT / ratio) ** SHARPNESS))


def _gaps(scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each image: its classes from best to worst, the widest gap in the upper half, its place."""
    order = standardize(scores).sort(dim=1, descending=True)
    upper = max(2, scores.shape[1] // 2 + 1)
    steps = order.values[:, : upper - 1] - order.values[:, 1:upper]
    widest = steps.max(dim=1)
    return order.indices, widest.values, widest.indices


def _mean_gap(scores: Tensor) -> float:
    return float(_gaps(scores)[1].mean())


def _evidence(text: Tensor, crossfit: Tensor) -> Tensor:
    """(C,) in [0, 1]: images that X finds the class in, and whether X's tail is as long as T's."""
    n, n_classes = text.shape
    order, gap, place = _gaps(crossfit)
    above = (torch.arange(n_classes) <= place[:, None]) & (gap > LEAD)[:, None]
    found = torch.bincount(order[above], minlength=n_classes).float()
    enough = max(4.0, 0.1 * n / n_classes)
    longer = (_tail(crossfit) / _tail(text).clamp_min(1e-6)).clamp(0, 1)
    return found.square() / (found.square() + enough**2) * longer**TAIL_DOUBT


def _tail(scores: Tensor) -> Tensor:
    count = min(len(scores), max(5, int(TAIL * len(scores))))
    top = scores.topk(count, dim=0).values.mean(0)
    spread = scores.std(0, unbiased=False).clamp_min(1e-6)
    return (top - scores.median(0).values) / spread
