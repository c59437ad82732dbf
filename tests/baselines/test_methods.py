"""What all methods have in common, and those that are a formula of the features."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import torch

from fake_encoder import (
    CLASSES,
    SMALL_BANKS,
    ColorEncoder,
    features_of,
    names_of,
    pictures,
    recognizer_of,
)
from piaa import Recognizer
from piaa.baselines import list_methods, make_method
from piaa.baselines.piaa import Piaa
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import InputError, UnknownNameError
from worlds import World, patch_world

FOR_ANY_ENCODER = [name for name in list_methods() if name != "tagclip"]


@pytest.fixture(scope="module")
def world() -> World:
    return patch_world(5, 60, 9, 16, 6)


def plain_log_odds(cosines: np.ndarray, scale: float) -> np.ndarray:
    """(B, M, C) -> log-odds of the best patch's probability, (B, C)."""
    powers = np.exp(scale * (cosines - cosines.max(-1, keepdims=True)))
    best = (powers / powers.sum(-1, keepdims=True)).max(1)
    return np.log(best / np.maximum(1 - best, 2.0**-24))


def assert_equal_but_for_the_surest(found: torch.Tensor, expected: np.ndarray) -> None:
    """Near a probability of 1, float32 has few digits left of the odds."""
    unsure = expected < 8
    np.testing.assert_allclose(found.numpy()[unsure], expected[unsure], atol=1e-3, rtol=1e-4)
    assert (found.numpy()[~unsure] > 7.9).all()


@pytest.mark.parametrize("scale", [None, 7.0])
def test_cls_and_patch_are_their_formulas(world: World, scale: float | None) -> None:
    encoder = recognizer_of(world).encoder
    text, cls, patches = (x.double().numpy() for x in (world.text, world.cls, world.patches))
    options = {} if scale is None else {"scale": scale}
    found = make_method("cls", encoder, names_of(world), **options).scores(features_of(world))
    expected = plain_log_odds((cls @ text.T)[:, None], scale or 100.0)
    assert_equal_but_for_the_surest(found, expected)
    found = make_method("patch", encoder, names_of(world), **options).scores(features_of(world))
    expected = plain_log_odds(patches @ text.T, scale or 60.0)
    assert_equal_but_for_the_surest(found, expected)


def test_piaa_is_the_recognizer(world: World) -> None:
    encoder = recognizer_of(world).encoder
    recognizer = Recognizer(encoder, names_of(world), config=SMALL_BANKS)
    method = make_method("piaa", recognizer.encoder, names_of(world), config=SMALL_BANKS)
    images = features_of(world)
    assert torch.equal(method.scores(images), recognizer.scorer.evidence(images))
    assert method.settings["fitted_images"] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recognizer.fit(images)
        method.fit(images)
    assert torch.equal(method.scores(images), recognizer.scorer.evidence(images))
    assert torch.equal(method.thresholds, recognizer.scorer.thresholds)
    assert torch.equal(Piaa.of(recognizer).scores(images), method.scores(images))
    assert method.settings["fitted_images"] == 60
    tags = method.scores(images) >= method.thresholds
    assert torch.equal(tags, recognizer.scorer.scores(images) >= 0.5)


@pytest.mark.parametrize("name", FOR_ANY_ENCODER)
def test_features_and_pictures_give_the_same(name: str) -> None:
    encoder, images = ColorEncoder(), pictures()
    method = make_method(name, encoder, CLASSES)
    scores = method.scores(images)
    assert scores.shape == (12, 3)
    assert scores.dtype == torch.float32
    assert scores.isfinite().all()
    features = encoder.encode_images(images)
    close = {"rtol": 1e-5, "atol": 1e-5}  # products round differently in other batches
    torch.testing.assert_close(method.scores(features), scores, **close)
    torch.testing.assert_close(method.scores([features[:5], features[5:]]), scores, **close)
    if not method.transductive:
        torch.testing.assert_close(method.scores(features[3:4]), scores[3:4], **close)


@pytest.mark.parametrize("name", FOR_ANY_ENCODER)
def test_says_what_it_is(name: str) -> None:
    method = make_method(name, ColorEncoder(), CLASSES)
    assert method.name == name
    assert method.classes.names == tuple(CLASSES)
    assert method.forward_passes == "1"
    assert make_method(name, TiledEncoder(ColorEncoder()), CLASSES).forward_passes == "5 (tiles)"
    assert not method.needs_pictures
    assert method.learns == (name in ("sparc", "piaa"))
    assert method.transductive == (name == "sparc")
    assert (method.thresholds is not None) == (name == "piaa")
    assert json.loads(json.dumps(method.settings))["templates"] == ["a photo of a {}"]
    with pytest.raises(InputError, match="no images"):
        method.scores([])


@pytest.mark.parametrize("name", ["cls", "patch"])
def test_zero_shot_reads_nothing_to_learn_from(name: str) -> None:
    method = make_method(name, ColorEncoder(), CLASSES)
    before = method.scores(pictures())
    method.fit(["no such picture.jpg"])
    assert torch.equal(method.scores(pictures()), before)


def test_several_templates_are_averaged() -> None:
    encoder = ColorEncoder()
    templates = ["a photo of a {}", "the color {}", "{}"]
    found = make_method("cls", encoder, CLASSES, template=templates).text
    vectors = torch.stack(
        [encoder.encode_text([t.replace("{}", name) for name in CLASSES]) for t in templates]
    )
    expected = torch.nn.functional.normalize(vectors.mean(0), dim=1)
    torch.testing.assert_close(found, expected)


def test_one_class_is_ranked_by_its_cosines() -> None:
    encoder = ColorEncoder()
    features = encoder.encode_images(pictures())
    scores = make_method("cls", encoder, ["red"]).scores(features)[:, 0]
    cosines = features.cls @ encoder.encode_text(["a photo of a red"])[0]
    assert torch.equal(scores.argsort(), cosines.argsort())


def test_refuses_unknown_names_and_options() -> None:
    with pytest.raises(UnknownNameError, match=r"'tagclop'\. Did you mean 'tagclip'"):
        make_method("tagclop", ColorEncoder(), CLASSES)
    message = r"Unknown option of method 'cls' 'scales'\. Did you mean 'scale'"
    with pytest.raises(UnknownNameError, match=message):
        make_method("cls", ColorEncoder(), CLASSES, scales=3)
    for scale in (0, -1.0, float("nan"), float("inf"), True, "60"):
        with pytest.raises(InputError, match="scale must be a finite number above 0"):
            make_method("patch", ColorEncoder(), CLASSES, scale=scale)
