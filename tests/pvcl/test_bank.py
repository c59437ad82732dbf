from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_pvcl import banks
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import normalize

import piaa.pvcl.bank as bank_module
from piaa.config import Config
from piaa.errors import InputError
from piaa.pvcl import Bank, merge, solve
from worlds import patch_world

SCALES = pytest.mark.parametrize("scale", [None, 20.0], ids=["lead", "entropy"])


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Bit for bit, NaN included."""
    return first.keys() == second.keys() and all(
        torch.equal(first[k].nan_to_num(-1.0), second[k].nan_to_num(-1.0)) for k in first
    )


def filled(
    patches: Tensor, text: Tensor, ids: Tensor, *, batch: int, size: int, scale: float | None
) -> Bank:
    bank = Bank(text, size=size, text_scale=scale)
    for start in range(0, len(ids), batch):
        bank.update(patches[start : start + batch], ids[start : start + batch])
    return bank


@SCALES
def test_holds_the_best_of_each_class(scale: float | None) -> None:
    # 9,800 patches: more than the room of a bank, so that pruning and screening are at work.
    world = patch_world(5, 200, 49, 16, 6, text_strength=0.4, patch_noise=0.8)
    bank = filled(world.patches, world.text, torch.arange(200), batch=17, size=30, scale=scale)
    members = bank.members()
    expected = banks(world.patches, world.text, list(range(200)), size=30, scale=scale)
    for c, wanted in enumerate(expected):
        mine = members.label == c
        places = list(zip(members.image[mine].tolist(), members.cell[mine].tolist(), strict=True))
        assert places == [(image, cell) for _, image, cell, _ in wanted]
        keys = torch.tensor([key for key, *_ in wanted], dtype=torch.float64)
        torch.testing.assert_close(members.key[mine], keys, rtol=1e-6, atol=1e-6)
    assert torch.equal(members.vectors, world.patches[members.image, members.cell])
    distinct = [len({image for _, image, _, _ in wanted}) for wanted in expected]
    assert members.distinct_images(6).tolist() == distinct
    assert members.counts(6).tolist() == [len(wanted) for wanted in expected]


@SCALES
@pytest.mark.parametrize(("cells", "dim", "n_classes"), [(49, 512, 80), (1, 33, 5), (3, 7, 2)])
def test_keys_do_not_depend_on_batch_or_threads(
    scale: float | None, cells: int, dim: int, n_classes: int
) -> None:
    random = torch.Generator().manual_seed(0)
    text = normalize(torch.randn(n_classes, dim, generator=random), dim=-1)
    patches = normalize(torch.randn(24, cells, dim, generator=random), dim=-1)
    ids = torch.randperm(24, generator=random)
    before = torch.get_num_threads()
    states = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            for batch in (1, 5, 24):
                bank = filled(patches, text, ids, batch=batch, size=3, scale=scale)
                states.append(bank.state())
    finally:
        torch.set_num_threads(before)
    assert all(same(states[0], state) for state in states[1:])


def test_cosines_are_exact() -> None:
    random = torch.Generator().manual_seed(1)
    text = normalize(torch.randn(9, 300, generator=random), dim=-1)
    rows = normalize(torch.randn(50, 300, generator=random), dim=-1)
    bank = Bank(text, size=1)
    label, key = bank._keys.assess(rows)
    whole = (
        rows.double() * 2**24
    ).round().long() @ bank._keys.prototypes.long().T  # integer arithmetic
    best, second = whole.sort(dim=1, descending=True).values[:, :2].unbind(1)
    assert torch.equal(key, -(2 * best - second).double() / 2**49)
    assert torch.equal(label, whole.argmax(dim=1))


@st.composite
def _shards(draw: st.DrawFn) -> tuple[Tensor, Tensor, list[list[int]], list[int]]:
    """Patches taken from a handful of directions (so that ties abound), and a cut into shards."""
    random = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    text = normalize(torch.randn(draw(st.integers(1, 4)), 6, generator=random), dim=-1)
    palette = normalize(torch.randn(draw(st.integers(1, 12)), 6, generator=random), dim=-1)
    n_images = draw(st.integers(1, 14))
    patches = palette[torch.randint(len(palette), (n_images, 5), generator=random)]
    order = draw(st.permutations(range(n_images)))
    cuts = sorted(draw(st.lists(st.integers(0, n_images), max_size=4)))
    edges = [0, *cuts, n_images]
    shards = [list(order[a:b]) for a, b in pairwise(edges)]
    joins = [draw(st.integers(0, 10**6)) for _ in shards]
    return text, patches, shards, joins


@settings(max_examples=60, deadline=None)
@given(
    cut=_shards(),
    size=st.integers(1, 7),
    scale=st.sampled_from([None, 20.0]),
    room=st.sampled_from([2, 11, 8192]),
    batch=st.integers(1, 5),
)
def test_merging_in_any_order_and_grouping_is_one_pass(
    cut: tuple[Tensor, Tensor, list[list[int]], list[int]],
    size: int,
    scale: float | None,
    room: int,
    batch: int,
) -> None:
    text, patches, shards, joins = cut
    whole = filled(patches, text, torch.arange(len(patches)), batch=99, size=size, scale=scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bank_module, "_LEAST_ROOM", room)
        parts = [
            filled(patches[ids], text, torch.tensor(ids), batch=batch, size=size, scale=scale)
            for ids in shards
        ]
        for join in joins:
            if len(parts) > 1:
                first = parts.pop(join % len(parts))
                second = parts.pop(join // 7 % len(parts))
                parts.append(merge(first, second))
    (merged,) = parts
    assert same(whole.state(), merged.state())
    config = Config(bank_size=size, bank_floor=1, text_scale=scale)
    one_pass, pieces = solve(whole, config)[0], solve(merged, config)[0]
    assert torch.equal(one_pass.weight, pieces.weight)
    assert torch.equal(one_pass.bias, pieces.bias)


def test_merge_leaves_its_arguments_alone() -> None:
    world = patch_world(0, 10, 4, 8, 3)
    first = filled(world.patches[:5], world.text, torch.arange(5), batch=5, size=2, scale=None)
    second = filled(world.patches[5:], world.text, torch.arange(5, 10), batch=5, size=2, scale=None)
    before = first.state(), second.state()
    merge(first, second)
    assert same(before[0], first.state())
    assert same(before[1], second.state())


def test_a_smaller_selection_is_a_smaller_bank() -> None:
    world = patch_world(1, 40, 9, 16, 4)
    large = filled(world.patches, world.text, torch.arange(40), batch=8, size=20, scale=None)
    small = filled(world.patches, world.text, torch.arange(40), batch=8, size=6, scale=None)
    assert all(
        torch.equal(a, b)
        for a, b in zip(
            vars(large.members(6)).values(), vars(small.members()).values(), strict=True
        )
    )


@SCALES
def test_state_survives_safetensors(scale: float | None, tmp_path: object) -> None:
    world = patch_world(2, 30, 9, 16, 4)
    bank = filled(world.patches, world.text, torch.arange(30), batch=7, size=5, scale=scale)
    save_file(bank.state(), f"{tmp_path}/bank.safetensors")
    loaded = Bank.from_state(load_file(f"{tmp_path}/bank.safetensors"))
    assert same(loaded.state(), bank.state())
    for b in (bank, loaded):
        b.update(world.patches[:3].flip(1), torch.tensor([101, 102, 103]))
    assert same(loaded.state(), bank.state())


def test_negative_and_huge_ids() -> None:
    text = torch.eye(2)
    ids = torch.tensor([2**63 - 1, -(2**63), 0])
    bank = Bank(text, size=2)
    bank.update(text[:1].expand(3, 1, 2), ids)
    assert bank.members().image.tolist() == [-(2**63), 0]


def test_text_probability_is_the_softmax_of_the_own_class() -> None:
    world = patch_world(4, 20, 9, 16, 5)
    members = filled(
        world.patches, world.text, torch.arange(20), batch=20, size=8, scale=None
    ).members()
    every = (members.vectors.double() @ world.text.double().T * 12).softmax(dim=1)
    wanted = every[torch.arange(len(every)), members.label].float()
    torch.testing.assert_close(members.text_probability(world.text, 12.0), wanted)


def test_memory_stays_within_the_banks_and_their_room() -> None:
    text = normalize(torch.randn(3, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    bank = Bank(text, size=10)
    for i in range(30):
        random = torch.Generator().manual_seed(i + 1)
        bank.update(
            normalize(torch.randn(10, 100, 8, generator=random), dim=-1),
            torch.arange(10 * i, 10 * i + 10),
        )
    assert len(bank._slots) <= 3 * 10 + 8192
    assert bank.n_patches == 30_000


ONE = torch.tensor([0])
UNIT = torch.eye(3)[None]


@pytest.mark.parametrize(
    ("patches", "ids", "message"),
    [
        (UNIT * math.nan, ONE, "finite rows of unit length"),
        (UNIT * 1.5, ONE, "row \\(0, 0\\) has length 1.5"),
        (UNIT * 0, ONE, "unit length"),
        (UNIT[0], ONE, "3 axes"),
        (UNIT[:, :0], ONE, "at least 1"),
        (torch.eye(4)[None], ONE, "4 numbers a vector and the text prototypes have 3"),
        (UNIT.long(), ONE, "floating-point"),
        (UNIT.numpy(), ONE, "torch tensor"),
        (UNIT, torch.tensor([0, 1]), "one id for each of the 1 images"),
        (UNIT, torch.tensor([0.0]), "int64"),
        (UNIT, [0], "int64"),
        (UNIT.expand(2, 3, 3), torch.tensor([4, 4]), "repeats an id"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    patches: object, ids: object, message: str
) -> None:
    bank = Bank(torch.eye(3), size=2)
    with pytest.raises(InputError, match=message):
        bank.update(patches, ids)  # type: ignore[arg-type]
    assert bank.n_images == 0
    assert len(bank.members().label) == 0


@pytest.mark.parametrize("size", [1, 3, 50])
def test_an_image_added_twice_counts_once(size: int) -> None:
    generator = torch.Generator().manual_seed(3)
    patches = torch.nn.functional.normalize(torch.randn(6, 5, 3, generator=generator), dim=-1)
    ids = torch.arange(6)
    once, twice = Bank(torch.eye(3), size=size), Bank(torch.eye(3), size=size)
    once.update(patches, ids)
    for part in ([0, 1, 2, 3], [2, 3, 4], [5, 0], [1]):
        twice.update(patches[part], ids[part])
    merged = merge(twice, once)
    for bank in (twice, merged):
        for name, value in vars(once.members()).items():
            assert torch.equal(value, getattr(bank.members(), name))


def test_bad_banks() -> None:
    with pytest.raises(InputError, match="size must be at least 1"):
        Bank(torch.eye(3), size=0)
    with pytest.raises(InputError, match="text_scale"):
        Bank(torch.eye(3), size=1, text_scale=math.inf)
    with pytest.raises(InputError, match="no class"):
        Bank(torch.empty(0, 3), size=1)
    with pytest.raises(InputError, match="text must hold finite rows"):
        Bank(torch.ones(2, 3), size=1)
    with pytest.raises(InputError, match="between 1 and the bank's 2"):
        Bank(torch.eye(3), size=2).members(3)
    for other in (
        Bank(torch.eye(3), size=3),
        Bank(torch.eye(3), size=2, text_scale=9.0),
        Bank(torch.eye(3).flip(0), size=2),
    ):
        with pytest.raises(InputError, match="merge only if"):
            merge(Bank(torch.eye(3), size=2), other)


def test_half_precision_features_are_taken() -> None:
    world = patch_world(4, 20, 9, 64, 5)
    bank = Bank(world.text, size=8)
    bank.update(world.patches.half(), torch.arange(20))
    assert bank.members().vectors.dtype == torch.float32


def test_one_class_ranks_by_cosine() -> None:
    text = torch.tensor([[1.0, 0.0]])
    angles = torch.tensor([[0.5, 0.1, 0.9]])
    bank = Bank(text, size=2)
    bank.update(torch.stack([angles.cos(), angles.sin()], dim=-1), ONE)
    assert bank.members().cell.tolist() == [1, 0]


def test_equal_prototypes_go_to_the_first_class() -> None:
    text = torch.eye(3)[[0, 0, 1]]
    bank = Bank(text, size=2)
    bank.update(UNIT, ONE)
    assert bank.members().counts(3)[1] == 0


def test_ties_go_by_image_id_and_then_by_cell() -> None:
    bank = Bank(torch.eye(2), size=3)
    bank.update(torch.eye(2)[:1].expand(2, 2, 2), torch.tensor([8, 5]))
    members = bank.members()
    places = zip(members.image.tolist(), members.cell.tolist(), strict=True)
    assert list(places) == [(5, 0), (5, 1), (8, 0)]
