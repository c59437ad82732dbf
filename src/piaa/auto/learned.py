"""A classifier of patches with the softmax scale that suits it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from piaa.pvcl import Classifier, match_scale
from piaa.scoring import learned_branch


@dataclass(frozen=True)
class Learned:
    """A classifier of C classes and its softmax scale."""

    classifier: Classifier
    scale: float

    @staticmethod
    def matched(classifier: Classifier, rows: Tensor, entropy: float) -> Learned:
        """At the scale that gives the softmax of the (N, D) rows a mean `entropy`, as a share of log C."""
        return Learned(classifier, matched_scale(classifier.scores(rows), entropy))

    def __call__(self, patches: Tensor) -> Tensor:
        """G: log-odds (B, C) of the best patch in (B, M, D)."""
        return learned_branch(patches, self.classifier, self.scale)


def matched_scale(logits: Tensor, entropy: float) -> float:
    """As `match_scale`, also for a single class, whose scores (N, 1) get a deviation of 1."""
    if logits.shape[1] > 1:
        return match_scale(logits, entropy=entropy)
    spread = float(logits.std(unbiased=False))
    return 1 / spread if spread > 1e-6 else 1.0  # of a single image there is none


def mixed(one: Learned, two: Learned, share: float) -> Classifier:
    """Both at their own scale, so that neither outvotes the other by its length; share in [0, 1] of `two`."""
    first, second = (1 - share) * one.scale, share * two.scale
    return Classifier(
        first * one.classifier.weight + second * two.classifier.weight,
        first * one.classifier.bias + second * two.classifier.bias,
    )
