from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from fake_encoder import features_of
from piaa import paa, pvcl
from piaa.config import Config
from piaa.errors import InputError
from piaa.evaluation.forms import Form, form_scores
from worlds import World, patch_world

CONFIG = Config.reference("voc")


@pytest.fixture(scope="module")
def world() -> World:
    return patch_world(1, 60, 16, 24, 5)


def scores(world: World, *forms: Form) -> dict[Form, Tensor]:
    learn = [features_of(world, slice(0, 25)), features_of(world, slice(25, 40))]
    test = [features_of(world, slice(40, 47)), features_of(world, slice(47, 60))]
    return form_scores(forms, learn, test, world.text, CONFIG)


def test_base_is_the_best_patch_of_the_text_softmax(world: World) -> None:
    found = scores(world, Form("base"))[Form("base")]
    slow = [
        torch.stack([(60 * patch @ world.text.T).softmax(0) for patch in image]).amax(0)
        for image in world.patches[40:]
    ]
    torch.testing.assert_close(found.exp(), torch.stack(slow))


def test_piaa_is_the_published_procedure(world: World) -> None:
    found = scores(world, Form("piaa", bank_size=32))[Form("piaa", bank_size=32)]
    config = replace(CONFIG, bank_size=32)
    classifier = pvcl.learn([world.patches[:40]], world.text, config)
    expected = paa.aggregate(world.patches[40:], world.cls[40:], world.text, classifier, config)
    torch.testing.assert_close(found, expected.fused)


def test_alpha_goes_from_cls_to_pvcl(world: World) -> None:
    ends = [Form("piaa", alpha=0.0), Form("piaa", alpha=1.0)]
    found = scores(world, Form("cls"), Form("pvcl"), *ends)
    torch.testing.assert_close(found[ends[0]], found[Form("cls")])
    torch.testing.assert_close(found[ends[1]], found[Form("pvcl")])


def test_forms_do_not_depend_on_what_is_asked_for_beside_them(world: World) -> None:
    sweep = [Form("piaa", bank_size=k) for k in (8, 64, 200)]
    together = scores(world, *sweep, Form("text+cls"))
    for form in sweep:
        assert torch.equal(together[form], scores(world, form)[form])
    assert not torch.equal(together[sweep[0]], together[sweep[1]])


def test_text_and_cls_are_a_distribution_that_ranks_by_both(world: World) -> None:
    found = scores(world, Form("text+cls"))[Form("text+cls")]
    torch.testing.assert_close(found.sum(1), torch.ones(20))
    assert len(found.unique()) > 0.9 * found.numel(), "no ties by underflow"


def test_configs_that_leave_numbers_open_are_refused(world: World) -> None:
    with pytest.raises(InputError, match="numbers"):
        form_scores([Form("cls")], [], [features_of(world)], world.text, Config.auto())
    with pytest.raises(InputError, match="no image to learn from"):
        form_scores([Form("piaa")], [], [features_of(world)], world.text, CONFIG)
