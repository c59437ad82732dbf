from __future__ import annotations

import pytest
import torch
from torch import Tensor

import piaa.pvcl.bank as bank_module
from piaa.pvcl import Bank
from piaa.pvcl.keys import Keys
from piaa.pvcl.members import Rows, lexsort
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
    place, *_ = bank._keys.entering(rows, bank._slots.worst)
    screened[place] = True
    assert enters.any()
    assert not (enters & ~screened).any()
    if scale in (None, 2.0, 20.0):  # above, the softmax saturates and most keys are nearly 0
        told_apart = (label != 0) & (label != 12)
        assert (screened & told_apart).sum() <= 1.1 * enters[told_apart].sum() + 5


@pytest.mark.parametrize("scale", [None, 2.0, 20.0, 60.0, 500.0])
@pytest.mark.parametrize("room", [60, 300, 8192])
def test_rough_keys_leave_the_bank_as_it_is(
    scale: float | None, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one sort of all exact keys; some images come twice, with other company."""
    monkeypatch.setattr(bank_module, "_LEAST_ROOM", room)
    world = patch_world(8, 120, 25, 64, 9, text_strength=0.5, patch_noise=0.8)
    bank = Bank(world.text, size=40, text_scale=scale)
    for ids in torch.arange(120).split(7):
        bank.update(world.patches[ids], ids)
        again = ids[::3] // 2
        bank.update(world.patches[again], again)
    label, key = bank._keys.assess(world.patches.reshape(-1, 64))
    image, cell = torch.arange(120).repeat_interleave(25), torch.arange(25).repeat(120)
    order = lexsort(cell, image, key, label)
    wanted = torch.cat([order[label[order] == c][:40] for c in range(9)])
    members = bank.members()
    assert torch.equal(members.key, key[wanted])
    assert torch.equal(members.label, label[wanted])
    assert torch.equal(members.image, image[wanted])
    assert torch.equal(members.cell, cell[wanted])
    assert torch.equal(bank._slots.worst, members.key.reshape(9, 40)[:, -1])


@pytest.mark.parametrize("scale", [None, 20.0])
def test_exact_looks_are_for_those_who_stay(
    scale: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = patch_world(8, 400, 49, 64, 9, text_strength=0.5, patch_noise=0.8)
    looked_at: list[int] = []
    assess = Keys.assess

    def counting(keys: Keys, rows: Tensor | Rows) -> tuple[Tensor, Tensor]:
        looked_at.append(len(rows))
        return assess(keys, rows)

    monkeypatch.setattr(Keys, "assess", counting)
    bank = filled(world.patches, world.text, size=100, scale=scale)
    while_adding = sum(looked_at)
    n_members = len(bank.members().label)
    assert while_adding < 0.01 * 400 * 49
    assert n_members <= sum(looked_at) < 1.1 * n_members + while_adding
    looked_at.clear()
    bank.members()
    Bank.from_state(bank.state()).members()
    assert sum(looked_at) == 0


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
