from __future__ import annotations

import pytest
import torch
from torch import Tensor

from piaa.pvcl import Bank
from worlds import patch_world


def filled(patches: Tensor, text: Tensor, *, size: int, scale: float | None = None) -> Bank:
    bank = Bank(text, size=size, text_scale=scale)
    for ids in torch.arange(len(patches)).split(7):
        bank.update(patches[ids], ids)
    return bank


@pytest.mark.parametrize("scale", [None, 2.0, 20.0, 60.0, 500.0, 1e5])
def test_screening_loses_nothing(scale: float | None) -> None:
    world = patch_world(6, 250, 49, 64, 12, text_strength=0.6, patch_noise=0.9)
    text = torch.cat([world.text, world.text[:1]])  # two classes that no float can tell apart
    bank = filled(world.patches[:200], text, size=25, scale=scale)
    bank.members()
    rows = world.patches[200:].reshape(-1, 64)
    label, key = bank._keys.assess(rows)
    enters = key <= bank._slots.worst[label]
    screened = torch.zeros_like(enters)
    if scale is None:
        place, _, _ = bank._keys._leading(rows, bank._slots.worst.float())
    else:
        place = bank._keys._confident(rows, bank._slots.worst)
    screened[place] = True
    assert enters.any()
    assert not (enters & ~screened).any()
    if scale in (None, 2.0, 20.0):  # above, the softmax saturates and most keys are nearly 0
        told_apart = (label != 0) & (label != 12)
        assert (screened & told_apart).sum() <= 1.1 * enters[told_apart].sum() + 5


def test_borrowed_vectors_are_those_of_the_members() -> None:
    world = patch_world(2, 30, 9, 16, 4)
    bank = filled(world.patches, world.text, size=5)
    rows, label, image = bank.borrow(3)
    members = bank.members(3)
    assert len(rows) == len(label)
    assert torch.equal(rows[:], members.vectors)
    assert torch.equal(rows.only(torch.tensor([4, 2]))[1:], members.vectors[[2]])
    assert torch.equal(label, members.label)
    assert torch.equal(image, members.image)


def test_a_bank_outlives_inference_mode() -> None:
    world = patch_world(2, 30, 9, 16, 4)
    with torch.inference_mode():
        bank = filled(world.patches[:20], world.text, size=5)
    bank.update(world.patches[20:], torch.arange(20, 30))
    whole = filled(world.patches, world.text, size=5).members()
    got = bank.members()
    assert torch.equal(got.vectors, whole.vectors)
    assert torch.equal(got.key, whole.key)
