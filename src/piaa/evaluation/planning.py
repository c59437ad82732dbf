"""What an evaluation would do and how long it would take, from a probe of a few images."""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.baselines import Method
from piaa.datasets import Dataset
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import InputError
from piaa.evaluation.encoded import Encoded, FeatureSets

PROBE = 16
PICTURE_PROBE = 2
COPIES, STEP = 128, 16


@dataclass(frozen=True)
class Step:
    """A part of the work: what, on how many images, and about how many seconds (NaN if not known)."""

    what: str
    images: int
    seconds: float


def plan(
    dataset: Dataset,
    encoder: Encoder,
    methods: Sequence[Method],
    sets: FeatureSets,
    *,
    fit: bool,
) -> list[Step]:
    """The steps of an evaluation; encodes a few images to time them, and keeps nothing.

    Methods are fitted on the probe, so they must not be used afterwards.
    """
    probe = dataset.test.paths[:PROBE]
    steps = []
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        features = FeatureSets(Path(folder)).get(encoder, probe)
        each = (time.perf_counter() - start) / len(probe)
        from_features = [m for m in methods if not m.needs_pictures]
        if from_features:
            splits = [dataset.learn] if fit and any(m.learns for m in from_features) else []
            for split in (*splits, dataset.test):
                missing = len(split) - sets.kept(encoder, split.paths)
                kept = (
                    "" if missing == len(split) else f" ({len(split) - missing} are kept already)"
                )
                steps.append(Step(f"encode {split.name}{kept}", missing, missing * each))
        for method in methods:
            if method.needs_pictures:
                seconds = _extrapolate(method.scores, probe[:PICTURE_PROBE], len(dataset.test))
                what = f"score with {method.name}, {method.forward_passes} passes"
                steps.append(Step(what, len(dataset.test), seconds))
                continue
            like = _copies(features)
            if fit and method.learns:
                seconds = _extrapolate(method.fit, like, len(dataset.learn))
                steps.append(Step(f"fit {method.name}", len(dataset.learn), seconds))
            seconds = _extrapolate(method.scores, like, len(dataset.test))
            steps.append(Step(f"score with {method.name}", len(dataset.test), seconds))
    return steps


def _copies(features: Encoded) -> list[ImageFeatures]:
    """Features of `COPIES` pictures made from those of a few: as costly, and not encoded."""
    few = ImageFeatures.concatenate(list(features))
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(len(few), (COPIES,), generator=generator)

    def shaken(vectors: Tensor) -> Tensor:
        noise = torch.randn(vectors.shape, generator=generator) * 0.3 * vectors.shape[-1] ** -0.5
        return F.normalize(vectors + noise.to(vectors.device), dim=-1)

    return [
        ImageFeatures(shaken(few.cls[some]), shaken(few.patches[some]), few.grid, (), few.windows)
        for some in torch.split(rows, STEP)
    ]


def _extrapolate(work: Callable[[Any], object], images: Sequence[Any], total: int) -> float:
    """Seconds for `total` images: what a start costs, and each image more, told from two sizes."""
    half = max(1, len(images) // 2)
    n_half, n_all = (
        sum(len(i) if isinstance(i, ImageFeatures) else 1 for i in images[:n])
        for n in (half, len(images))
    )
    short, long = _time(partial(work, images[:half])), _time(partial(work, images))
    each = max(0.0, long - short) / max(1, n_all - n_half)
    return short + each * max(0, total - n_half)


def _time(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of 16 images nothing can be told, and nothing is
        try:
            work()
        except InputError:  # a method that needs more images than a probe has
            return math.nan
    return time.perf_counter() - start
