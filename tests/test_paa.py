from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from piaa import paa
from piaa.config import Config
from piaa.errors import InputError
from piaa.pvcl import Classifier, learn
from worlds import patch_world

RECORD = np.load(Path(__file__).parent / "data" / "pvcl_seed3.npz")


@pytest.mark.parametrize(("multiplier", "tag"), [(100.0, "100"), (0.01, "0p01")])
def test_equals_the_published_test_script(multiplier: float, tag: str) -> None:
    world = patch_world(3, 300, 49, 32, 7)
    config = replace(Config.reference("voc"), bank_size=64, purify_scale=multiplier)
    classifier = learn([world.patches], world.text, config)
    got = paa.aggregate(world.patches[:50], world.cls[:50], world.text, classifier, config)
    for mine, key in (
        (got.patch, f"patch_{tag}"),
        (got.fused, f"scores_{tag}"),
        (got.cls, "cls_scores"),
    ):
        np.testing.assert_allclose(mine, RECORD[key], atol=1e-5, rtol=0)


def random_case(n_classes: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Classifier]:
    random = torch.Generator().manual_seed(n_classes)
    patches = normalize(torch.randn(5, 7, 16, generator=random), dim=-1)
    cls = normalize(torch.randn(5, 16, generator=random), dim=-1)
    text = normalize(torch.randn(n_classes, 16, generator=random), dim=-1)
    weight = 20 * torch.randn(16, n_classes, generator=random)
    return patches, cls, text, Classifier(weight, torch.randn(n_classes, generator=random))


@pytest.mark.parametrize("config", [Config.paper(), Config.reference("nus")])
@pytest.mark.parametrize("at_once", [1, 13, 50, 2**22])
def test_equals_the_formula_however_it_is_cut(
    config: Config, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paa, "_SCORES_AT_ONCE", at_once)
    monkeypatch.setattr(paa, "_LEAST_ROWS_AT_ONCE", 1)
    patches, cls, text, classifier = random_case()
    got = paa.aggregate(patches, cls, text, classifier, config)
    y = patches.double() @ classifier.weight.double() + classifier.bias.double()
    best = (y / config.score_divisor).softmax(-1).amax(1)
    patch = (config.patch_scale * best).softmax(-1)
    globe = (config.cls_scale * cls.double() @ text.double().T).softmax(-1)
    torch.testing.assert_close(got.patch.double(), patch, atol=1e-5, rtol=0)
    torch.testing.assert_close(got.cls.double(), globe, atol=1e-5, rtol=0)
    torch.testing.assert_close(got.fused.double(), 0.9 * patch + 0.1 * globe, atol=1e-5, rtol=0)
    for scores in (got.patch, got.cls, got.fused):
        assert scores.dtype == torch.float32
        assert scores.min() >= 0
        assert scores.max() <= 1
        torch.testing.assert_close(scores.sum(1), torch.ones(5))


def test_log_odds_equal_the_formula() -> None:
    patches, cls, text, classifier = random_case()
    for weight, bias, scale in (
        (text.T, None, 9.0),
        (classifier.weight, classifier.bias, 0.05),
    ):
        y = patches.double() @ weight.double() + (0 if bias is None else bias.double())
        p = (scale * y).softmax(-1).amax(1)
        got = paa.patch_log_odds(patches, weight, bias=bias, scale=scale)
        torch.testing.assert_close(got.double(), torch.logit(p), rtol=1e-4, atol=1e-5)
    p = (9.0 * cls.double() @ text.double().T).softmax(-1)
    got = paa.global_log_odds(cls, text, scale=9.0)
    torch.testing.assert_close(got.double(), torch.logit(p), rtol=1e-4, atol=1e-5)


def test_log_odds_of_certainty_are_finite() -> None:
    assert paa.log_odds(torch.tensor([0.0])).item() == pytest.approx(np.log(2.0**24), rel=1e-3)
    assert paa.log_odds(torch.tensor([-500.0])).item() == -500.0


def test_one_class_scores_one() -> None:
    patches, cls, text, classifier = random_case(1)
    got = paa.aggregate(patches, cls, text, classifier, Config.reference("voc"))
    assert torch.equal(got.fused, torch.ones(5, 1))


def test_no_image_gives_no_row() -> None:
    patches, cls, text, classifier = random_case()
    got = paa.aggregate(patches[:0], cls[:0], text, classifier, Config.paper())
    assert got.fused.shape == (0, 6)


def test_bad_input() -> None:
    patches, cls, text, classifier = random_case()
    config = Config.paper()
    with pytest.raises(InputError, match="leaves score_divisor, patch_scale, cls_scale, alpha"):
        paa.aggregate(patches, cls, text, classifier, Config.auto())
    with pytest.raises(InputError, match="do not fit 5 text prototypes"):
        paa.aggregate(patches, cls, text[:5], classifier, config)
    with pytest.raises(InputError, match="cls is of 4 images and patches of 5"):
        paa.aggregate(patches, cls[:4], text, classifier, config)
    with pytest.raises(InputError, match="patches must hold finite rows"):
        paa.aggregate(patches * torch.nan, cls, text, classifier, config)
    with pytest.raises(InputError, match="cls must hold finite rows"):
        paa.aggregate(patches, 2 * cls, text, classifier, config)
    with pytest.raises(InputError, match="patches must have 3 axes"):
        paa.aggregate(patches[:, 0], cls, text, classifier, config)


def test_errors_name_their_argument() -> None:
    patches, cls, text, classifier = random_case()
    config = Config.paper()
    with pytest.raises(InputError, match=r"^text must"):
        paa.aggregate(patches, cls, 2 * text, classifier, config)
    with pytest.raises(InputError, match=r"^cls must"):
        paa.aggregate(patches, 2 * cls, text, classifier, config)
    with pytest.raises(InputError, match=r"^patches must"):
        paa.aggregate(2 * patches, cls, text, classifier, config)
    with pytest.raises(InputError, match="do not fit 6 text prototypes"):
        paa.aggregate(patches, cls, text, Classifier(classifier.weight, torch.zeros(5)), config)
    with pytest.raises(InputError, match=r"^text must"):
        paa.global_log_odds(cls, 2 * text, scale=1.0)
    with pytest.raises(InputError, match=r"^cls must"):
        paa.global_log_odds(2 * cls, text, scale=1.0)


def test_one_open_number_is_enough() -> None:
    patches, cls, text, classifier = random_case()
    config = replace(Config.paper(), score_divisor=None)
    with pytest.raises(InputError, match="leaves score_divisor to be matched"):
        paa.aggregate(patches, cls, text, classifier, config)
