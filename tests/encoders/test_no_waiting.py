"""Nothing that is run for every batch asks the device for a value, which on a GPU would wait for it.

There is no GPU here: tensors of the device "meta" have shapes and no values, so whatever looks at one
(`.item()`, `if tensor`, `nonzero`, boolean masks) raises.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.frontends import list_frontends
from piaa.pvcl import Classifier
from piaa.scoring import Scorer

META = torch.device("meta")


def test_the_device_tells() -> None:
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(3, device=META).any().item()
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.zeros(3, device=META).nonzero()


@pytest.mark.parametrize("family", ["clip", "eva"])
@pytest.mark.parametrize("frontend", list_frontends())
def test_encoding(load: Callable[..., ClipEncoder], family: str, frontend: str) -> None:
    encoder = load(family, frontend=frontend)
    tower = copy.deepcopy(encoder.vision).to(META)
    cls, patches, grid = tower(torch.empty(2, 3, 160, 224, device=META), encoder.frontend)
    assert cls.device == patches.device == META
    assert cls.shape == (2, encoder.dim)
    assert patches.shape == (2, grid[0] * grid[1], encoder.dim)


@pytest.mark.parametrize("learned", [False, True])
def test_scoring(learned: bool) -> None:
    scorer = Scorer.zero_shot(torch.empty(7, 16, device=META), Config.auto(), 20.0)
    if learned:
        classifier = Classifier(torch.empty(16, 7, device=META), torch.empty(7, device=META))
        scorer = Scorer(**{**vars(scorer), "classifier": classifier, "whole": classifier})
    features = ImageFeatures(
        torch.empty(3, 16, device=META), torch.empty(3, 6, 16, device=META), (2, 3)
    )
    assert scorer.scores(features).shape == (3, 7)
