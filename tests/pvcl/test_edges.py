"""What mutants of the code showed to be untested."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import plain_pvcl
import pytest
import torch

from piaa import Config
from piaa.errors import InputError
from piaa.pvcl import Bank, learn, merge
from piaa.pvcl import bank as bank_module
from worlds import patch_world


@pytest.mark.parametrize("means", ["plain", "probability"])
def test_means_weighted_by_the_text_probability(means: str) -> None:
    """Without stage II, which would put weights of its own in their place."""
    world = patch_world(8, 40, 16, 12, 5, text_strength=0.4, patch_noise=0.9)
    config = replace(
        Config.paper(),
        bank_size=40,
        text_scale=8.0,
        bank_means=means,
        purify="none",
        purify_scale=None,
    )
    found = learn([world.patches], world.text, config)
    weight, bias = plain_pvcl.learn(world.patches, world.text, config)
    np.testing.assert_allclose(found.weight, weight, rtol=2e-5, atol=1e-5 * abs(weight).max())
    np.testing.assert_allclose(found.bias, bias, rtol=2e-5)


@pytest.mark.parametrize("scale", [None, 0.5, 30.0])
@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_few_classes(n_classes: int, scale: float | None) -> None:
    world = patch_world(4, 30, 9, 16, 4)
    text = world.text[:n_classes]
    bank = Bank(text, size=7, text_scale=scale)
    bank.update(world.patches, torch.arange(30))
    expected = plain_pvcl.banks(world.patches, text, list(range(30)), size=7, scale=scale)
    members = bank.members()
    for c, rows in enumerate(expected):
        mine = members.label == c
        if n_classes > 1:
            assert members.image[mine].tolist() == [image for _, image, _, _ in rows]
            assert members.cell[mine].tolist() == [cell for _, _, cell, _ in rows]
        else:  # one prototype is not centered, and every entropy is 0
            assert mine.sum() == 7


@pytest.mark.parametrize("scale", [None, 20.0])
def test_batches_larger_than_what_is_looked_at_together(
    scale: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = patch_world(5, 60, 25, 16, 4)
    banks = [Bank(world.text, size=9, text_scale=scale) for _ in range(2)]
    for start in (0, 30):
        ids = torch.arange(start, start + 30)
        banks[0].update(world.patches[start : start + 30], ids)
    monkeypatch.setattr(bank_module, "_ROWS_AT_ONCE", 64)
    for start in (0, 30):
        ids = torch.arange(start, start + 30)
        banks[1].update(world.patches[start : start + 30], ids)
        banks[1].members()
    for name, value in banks[0].state().items():
        assert torch.equal(value.nan_to_num(), banks[1].state()[name].nan_to_num()), name


def test_errors_name_their_argument() -> None:
    world = patch_world(2, 4, 4, 8, 3)
    with pytest.raises(InputError, match=r"^text must"):
        Bank(2 * world.text, size=3)
    with pytest.raises(InputError, match=r"^patches must"):
        Bank(world.text, size=3).update(2 * world.patches, torch.arange(4))
    for scale in (0.0, -1.0, torch.inf, torch.nan):
        with pytest.raises(InputError, match="text_scale must be a positive finite number"):
            Bank(world.text, size=3, text_scale=scale)


def test_a_successor_keeps_what_can_matter_and_no_more() -> None:
    world = patch_world(6, 200, 25, 16, 4)
    first = Bank(world.text, size=20)
    first.update(world.patches[:150], torch.arange(150))
    later, alone = first.successor(), Bank(world.text, size=20)
    for bank in (later, alone):
        bank.update(world.patches[150:], torch.arange(150, 200))
    assert len(later.members().label) < len(alone.members().label) // 2
    for name, value in merge(first, later).state().items():
        assert torch.equal(value.nan_to_num(), merge(first, alone).state()[name].nan_to_num()), name
