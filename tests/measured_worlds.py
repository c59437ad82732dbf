"""A synthetic world learnt from, and how well its images are ranked by scikit-learn's average precision."""

from __future__ import annotations

import pytest
import torch

from piaa import paa, pvcl
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.fitting.fitted import Fitted
from piaa.fitting.gathered import Gathered
from piaa.scoring import cls_branch, text_branch
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


def assert_above_text_and_presets(world: World) -> None:
    """The default, learnt from FIT images, ends above text and published presets on the others."""
    test = slice(FIT, None)
    seen, scorer = features(world, test), fit(world, slice(FIT)).scorer
    ours = mean_ap(world, test, scorer.evidence(seen))
    for branch in (
        text_branch(seen.patches, world.text, scorer.scales.text),
        cls_branch(seen.cls, world.text, scorer.scales.cls),
    ):
        assert ours >= mean_ap(world, test, branch) - 0.5
    for name in ("voc", "coco", "nus"):
        config = Config.reference(name)
        learned = pvcl.learn([world.patches[:FIT]], world.text, config)
        published = paa.aggregate(seen.patches, seen.cls, world.text, learned, config).fused
        assert ours >= mean_ap(world, test, published) - 0.15, name
