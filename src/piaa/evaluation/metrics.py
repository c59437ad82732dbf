"""Average precision and F1 of many labels, in plain numpy.

Average precision is the step-wise, non-interpolated one: AP = sum over score levels of (R_k - R_{k-1}) P_k,
equal scores forming one level. It is not VOC's 11-point value; torchmetrics and scikit-learn give the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from piaa.errors import InputError

Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Ranking:
    """The images of one class from best to worst, ready for any number of image weights.

    Attributes:
        order: (m,) rows of the images that count for the class, by falling score.
        hit: (m,) 1.0 where the class is in the image.
        ends: (levels,) last place of each group of equal scores.
    """

    order: NDArray[np.intp]
    hit: Values
    ends: NDArray[np.intp]

    @classmethod
    def of(cls, scores: Values, labels: NDArray[np.int8]) -> Ranking:
        """scores (n,), labels (n,) in {1, 0, -1}, -1 for images that do not count."""
        counted = np.flatnonzero(labels >= 0)
        order = counted[np.argsort(-scores[counted], kind="stable")]
        ranked = scores[order]
        last = np.append(ranked[1:] != ranked[:-1], True) if len(order) else np.zeros(0, bool)
        return cls(order, (labels[order] == 1).astype(np.float64), np.flatnonzero(last))

    def average_precision(self, weights: Values) -> Values:
        """AP (rounds,) under image weights (rounds, n); NaN where no weight is on a positive."""
        mine = weights[:, self.order]
        hits = np.cumsum(mine * self.hit, axis=1)[:, self.ends]
        seen = np.cumsum(mine, axis=1)[:, self.ends]
        gained = np.diff(hits, axis=1, prepend=0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            precision = np.where(seen > 0, hits / seen, 0.0)
            total = hits[:, -1] if hits.shape[1] else np.zeros(len(weights))
            return np.asarray((gained * precision).sum(axis=1) / np.where(total > 0, total, np.nan))


def rankings(scores: ArrayLike, labels: ArrayLike) -> list[Ranking]:
    """One a class, of scores (n, C) and labels (n, C) in {1, 0, -1}."""
    checked, truth = _checked(scores, labels)
    return [Ranking.of(checked[:, c], truth[:, c]) for c in range(truth.shape[1])]


def average_precisions(scores: ArrayLike, labels: ArrayLike) -> Values:
    """AP of each class (C,) in [0, 1]; NaN of a class without a positive image.

    Args:
        scores: (n, C), finite; the higher, the surer. They are ranked image against image.
        labels: (n, C) of 1, 0, and -1 where an image does not count for a class.

    >>> average_precisions([[0.9], [0.8], [0.1]], [[1], [0], [1]]).round(4).tolist()
    [0.8333]
    """
    every = rankings(scores, labels)
    ones = np.ones((1, len(np.asarray(labels))))
    return np.array([ranking.average_precision(ones)[0] for ranking in every])


def mean_average_precision(scores: ArrayLike, labels: ArrayLike) -> float:
    """Plain mean over the classes that have a positive image."""
    each = average_precisions(scores, labels)
    if np.isnan(each).all():
        raise InputError("No class has a positive image, so there is nothing to rank.")
    return float(np.nanmean(each))


@dataclass(frozen=True)
class F1:
    """How good tags are, each in [0, 1].

    Attributes:
        of1: F1 of all (image, class) decisions together (micro, "overall").
        cf1: F1 of the mean precision and the mean recall of the classes, as multi-label papers define it.
        macro: mean of the classes' own F1.
        precision, recall: overall.
        tags: mean number of tags an image.
    """

    of1: float
    cf1: float
    macro: float
    precision: float
    recall: float
    tags: float


def f1_scores(tags: ArrayLike, labels: ArrayLike) -> F1:
    """Of tags (n, C) bool against labels (n, C) in {1, 0, -1}.

    Classes without a positive image count in `of1` only. A precision of no tags is 0.
    """
    given, truth = np.asarray(tags, dtype=bool), np.asarray(labels)
    if given.shape != truth.shape:
        raise InputError(f"Tags {given.shape} and labels {truth.shape} differ in shape.")
    if not (truth == 1).any():
        raise InputError("No class has a positive image, so there is no F1.")
    counted = truth >= 0
    hits = (given & (truth == 1)).sum(0)
    n_given, n_true = (given & counted).sum(0), (truth == 1).sum(0)
    known = n_true > 0
    precision, recall = _ratio(hits, n_given), _ratio(hits, n_true)
    overall_p, overall_r = _ratio(hits.sum(), n_given.sum()), _ratio(hits.sum(), n_true.sum())
    class_p, class_r = precision[known].mean(), recall[known].mean()
    return F1(
        of1=float(_ratio(2 * overall_p * overall_r, overall_p + overall_r)),
        cf1=float(_ratio(2 * class_p * class_r, class_p + class_r)),
        macro=float(_ratio(2 * hits, n_given + n_true)[known].mean()),
        precision=float(overall_p),
        recall=float(overall_r),
        tags=float(given.sum(1).mean()),
    )


def _ratio(above: ArrayLike, below: ArrayLike) -> Values:
    top, bottom = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    return np.divide(top, bottom, out=np.zeros_like(bottom), where=bottom > 0)


def _checked(scores: ArrayLike, labels: ArrayLike) -> tuple[Values, NDArray[np.int8]]:
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if values.ndim != 2 or values.shape != truth.shape or not len(values):
        raise InputError(
            f"Scores and labels must have one shape (images, classes), not {values.shape} and {truth.shape}."
        )
    if not np.isfinite(values).all():
        raise InputError(
            f"{(~np.isfinite(values)).sum()} scores are not finite; images without a score cannot be ranked."
        )
    if not np.isin(truth, (-1, 0, 1)).all():
        raise InputError("Labels must be 1, 0, or -1 for images that do not count.")
    return values, truth.astype(np.int8)
