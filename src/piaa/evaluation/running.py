"""Methods on a data set: how good, how sure of it, and how fast."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from torch import Tensor

from piaa.baselines import Method
from piaa.datasets import Dataset
from piaa.errors import InputError
from piaa.evaluation.bootstrap import ROUNDS, Interval, map_interval, paired_interval
from piaa.evaluation.encoded import Encoded
from piaa.evaluation.metrics import F1, average_precisions, f1_scores
from piaa.evaluation.sizes import map_by_size
from piaa.fitting.fit_report import EvidenceWarning


@dataclass(frozen=True, eq=False)
class Measured:
    """One method's results; accuracies are in [0, 1].

    Attributes:
        label: what tables call it.
        per_class: AP of each class; NaN without a positive image.
        f1: at the thresholds that the method stores; None if it has none.
        by_size: mAP on small, medium and large objects; None where the data set has no boxes.
        seconds: learn_encode, fit, test_encode, score. Encoding is what it took when it was done, which
            may have been an earlier run.
        scores: (n, C) of the test images.
    """

    label: str
    map: Interval
    per_class: dict[str, float]
    f1: F1 | None
    by_size: dict[str, float] | None
    forward_passes: str
    settings: dict[str, Any]
    seconds: dict[str, float]
    images_per_second: float
    scores: Tensor

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the scores; what is not known is None."""
        return {
            "method": self.label,
            "map": asdict(self.map),
            "per_class": {name: _known(value) for name, value in self.per_class.items()},
            "f1": None if self.f1 is None else asdict(self.f1),
            "by_size": self.by_size and {size: _known(v) for size, v in self.by_size.items()},
            "forward_passes": self.forward_passes,
            "settings": self.settings,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "images_per_second": round(self.images_per_second, 2),
        }


def measure(
    method: Method,
    dataset: Dataset,
    *,
    learn: Encoded | None,
    test: Encoded | None,
    label: str | None = None,
    rounds: int = ROUNDS,
) -> Measured:
    """Fit a method, score the test images, compare with their labels.

    Args:
        learn: features to learn from; None leaves the method as it is.
        test: features of the test images; a method that needs pictures is given these instead.
    """
    seconds = {"learn_encode": 0.0, "fit": 0.0, "test_encode": 0.0, "score": 0.0}
    if learn is not None and method.learns:
        seconds["learn_encode"] = learn.seconds
        start = time.perf_counter()
        with warnings.catch_warnings():  # on a benchmark, classes without evidence are a result
            warnings.simplefilter("ignore", EvidenceWarning)
            method.fit(learn)
        seconds["fit"] = time.perf_counter() - start
    start = time.perf_counter()
    if method.needs_pictures:
        scores = method.scores(dataset.test.paths)
    elif test is not None:
        seconds["test_encode"] = test.seconds
        scores = method.scores(test)
    else:
        raise InputError(f"The method {method.name!r} needs features of the test images.")
    seconds["score"] = time.perf_counter() - start
    each = average_precisions(scores, dataset.labels)
    cuts, shares = method.thresholds, dataset.test.shares
    return Measured(
        label=label or method.name,
        map=map_interval(scores, dataset.labels, rounds=rounds),
        per_class=dict(zip(dataset.classes, each.tolist(), strict=True)),
        f1=None if cuts is None else f1_scores((scores >= cuts).numpy(), dataset.labels),
        by_size=None if shares is None else map_by_size(scores, dataset.labels, shares),
        forward_passes=method.forward_passes,
        settings=method.settings,
        seconds=seconds,
        images_per_second=len(dataset.test) / (seconds["test_encode"] + seconds["score"]),
        scores=scores,
    )


def compare(
    measured: Sequence[Measured], dataset: Dataset, *, rounds: int = ROUNDS
) -> list[Interval | None]:
    """Of each, the first one's mAP minus its own on the same images; None for the first itself."""
    first, *others = measured
    return [
        None,
        *(
            paired_interval(first.scores, other.scores, dataset.labels, rounds=rounds)
            for other in others
        ),
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
