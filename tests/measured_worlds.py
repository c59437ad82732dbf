"""A synthetic world learnt from, and how well its images are ranked by scikit-learn's average precision."""

from __future__ import annotations

import pytest
import torch

from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.finishing import Fitted
from piaa.fitting import Gathered
from worlds import World

average_precision = pytest.importorskip("sklearn.metrics").average_precision_score

FIT = 300


def features(world: World, images: slice) -> ImageFeatures:
    patches = world.patches[images]
    return ImageFeatures(world.cls[images], patches, (1, patches.shape[1]))


def fit(world: World, images: slice, config: Config | None = None) -> Fitted:
    gathered = Gathered(world.text, config or Config.auto())
    gathered.add(features(world, images))
    return gathered.finish()


def mean_ap(
    world: World, images: slice, scores: torch.Tensor, classes: slice = slice(None)
) -> float:
    truth, scores = world.labels[images, classes], scores[:, classes]
    seen = truth.any(0)
    return 100 * float(
        average_precision(truth[:, seen].numpy(), scores[:, seen].numpy(), average="macro")
    )
