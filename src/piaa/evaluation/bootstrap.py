"""How far a difference could be chance: images drawn with replacement, the same ones for all methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from piaa.errors import InputError
from piaa.evaluation.metrics import Values, mean_average_precision, rankings

ROUNDS = 1000
_ROUNDS_AT_ONCE = 50


@dataclass(frozen=True)
class Interval:
    """A value with the bounds of its 95 % bootstrap interval, in [0, 1] or differences of such."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def map_interval(
    scores: ArrayLike, labels: ArrayLike, *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """mAP with its percentile interval over images.

    In a draw without positives of a class the mean is over the others. Arguments as in
    `average_precisions`.
    """
    drawn = resampled_map(scores, labels, rounds=rounds, seed=seed)
    return _interval(mean_average_precision(scores, labels), drawn)


def paired_interval(
    ours: ArrayLike, theirs: ArrayLike, labels: ArrayLike, *, rounds: int = ROUNDS, seed: int = 0
) -> Interval:
    """mAP of `ours` minus that of `theirs`, scores (n, C) of the same images, drawn together."""
    difference = mean_average_precision(ours, labels) - mean_average_precision(theirs, labels)
    mine = resampled_map(ours, labels, rounds=rounds, seed=seed)
    other = resampled_map(theirs, labels, rounds=rounds, seed=seed)
    return _interval(difference, mine - other)


def resampled_map(scores: ArrayLike, labels: ArrayLike, *, rounds: int, seed: int = 0) -> Values:
    """mAP (rounds,) of as many draws; the same seed draws the same images whatever the scores."""
    if rounds < 2:
        raise InputError(f"A bootstrap needs at least 2 rounds, not {rounds}.")
    # Sorted once: a draw only changes how often each image counts.
    ranked = rankings(scores, labels)
    n_images = len(np.asarray(labels))
    return np.concatenate(
        [
            np.nanmean([ranking.average_precision(weights) for ranking in ranked], axis=0)
            for weights in _draws(n_images, rounds, seed)
        ]
    )


def _draws(n_images: int, rounds: int, seed: int) -> Iterator[Values]:
    """How often each image was drawn, (some rounds, n_images)."""
    rng = np.random.default_rng(seed)
    for first in range(0, rounds, _ROUNDS_AT_ONCE):
        some = min(_ROUNDS_AT_ONCE, rounds - first)
        picks = rng.integers(0, n_images, (some, n_images))
        yield np.stack([np.bincount(pick, minlength=n_images) for pick in picks]).astype(float)


def _interval(value: float, drawn: Values) -> Interval:
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Interval(value, float(low), float(high))
