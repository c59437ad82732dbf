"""How few unlabelled images are enough: fits on random subsets of a collection."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from piaa.baselines import Method
from piaa.datasets import Dataset
from piaa.errors import InputError
from piaa.evaluation.encoded import Encoded
from piaa.evaluation.metrics import mean_average_precision
from piaa.fitting.fit_report import EvidenceWarning


@dataclass(frozen=True)
class Curve:
    """mAP by number of images to learn from.

    Attributes:
        sizes: numbers of images, ascending.
        maps: for each size, the mAP of each seed.
        zero_shot: mAP without any image.
    """

    sizes: tuple[int, ...]
    maps: tuple[tuple[float, ...], ...]
    zero_shot: float

    def rows(self) -> list[dict[str, Any]]:
        """Size, mean, standard deviation, least and greatest mAP over the seeds."""
        return [
            {
                "images": size,
                "mean": float(np.mean(values)),
                "sd": float(np.std(values, ddof=1)) if len(values) > 1 else 0.0,
                "min": min(values),
                "max": max(values),
            }
            for size, values in zip(self.sizes, self.maps, strict=True)
        ]


def default_sizes(n_images: int) -> tuple[int, ...]:
    """20, 50, 100, 200, 500, ... and all.

    >>> default_sizes(300)
    (20, 50, 100, 200, 300)
    """
    steps = [factor * 10**power for power in range(1, 7) for factor in (1, 2, 5)]
    return (*(size for size in steps[1:] if size < n_images), n_images)


def learning_curve(
    make: Callable[[], Method],
    dataset: Dataset,
    learn: Encoded,
    test: Encoded,
    *,
    seeds: int,
    sizes: Sequence[int] | None = None,
    advance: Callable[[int], None] | None = None,
) -> Curve:
    """Fit a fresh method for each size and seed, on as many images drawn without replacement.

    With all images there is only one draw, so one fit.
    """
    if seeds < 1:
        raise InputError(f"A learning curve needs at least 1 seed, not {seeds}.")
    chosen = tuple(sorted(set(sizes or default_sizes(len(learn)))))
    if chosen[0] < 1 or chosen[-1] > len(learn):
        raise InputError(
            f"Sizes must lie between 1 and the {len(learn)} images to learn from, not {chosen}."
        )
    if not make().learns:
        raise InputError(f"The method {make().name!r} learns nothing, so it has no learning curve.")
    maps = []
    for size in chosen:
        found = []
        for seed in range(1 if size == len(learn) else seeds):
            drawn = np.random.default_rng([seed, size]).permutation(len(learn))[:size]
            method = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvidenceWarning)
                method.fit(learn.rows(drawn.tolist()))
            found.append(mean_average_precision(method.scores(test), dataset.labels))
            if advance is not None:
                advance(1)
        maps.append(tuple(found))
    zero_shot = mean_average_precision(make().scores(test), dataset.labels)
    return Curve(chosen, tuple(maps), zero_shot)
