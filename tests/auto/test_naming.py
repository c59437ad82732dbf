"""Which group has which name: against counting all orders, and problems with known names."""

from __future__ import annotations

import math
from itertools import pairwise, permutations, product
from statistics import fmean

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa.auto import naming
from piaa.auto.naming import name_groups

N_GROUPS, N_CLASSES, DIM = 8, 5, 64


def problem(seed: int, strength: float = 0.5) -> tuple[Tensor, Tensor, Tensor]:
    """Means of groups, of which the first are those of the classes in order; their shares; text."""
    random = torch.Generator().manual_seed(seed)
    text = normalize(torch.randn(N_CLASSES, DIM, generator=random), dim=1)
    means = 0.6 * normalize(torch.randn(N_GROUPS, DIM, generator=random), dim=1)
    means[:N_CLASSES] += strength * text
    share = torch.tensor([0.3] * N_CLASSES + [0.99] * (N_GROUPS - N_CLASSES))
    return means - means.mean(0), share, text


@pytest.mark.parametrize("seed", range(5))
def test_each_name_to_its_group(seed: int) -> None:
    named = name_groups(*problem(seed)).likely
    assert torch.equal(named.argmax(0), torch.arange(N_CLASSES))
    assert named.amax(0).min() > 0.8
    assert named.sum(0).max() <= 1 + 1e-5
    assert named.sum(1).max() <= 1 + 1e-5
    assert named.min() >= 0


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_groups_and_names_is_nothing(seed: int) -> None:
    means, share, text = problem(seed, strength=0.25)
    random = torch.Generator().manual_seed(seed + 100)
    groups = torch.randperm(N_GROUPS, generator=random)
    names = torch.randperm(N_CLASSES, generator=random)
    found = name_groups(means[groups], share[groups], text[names])
    for table, ordered in zip(name_groups(means, share, text), found, strict=True):
        torch.testing.assert_close(ordered, table[groups][:, names], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("seed", range(8))
def test_the_likeliest_names_are_those_of_all_permutations(seed: int) -> None:
    means, _, text = problem(seed, strength=0.3)
    means, share = means[:N_CLASSES], torch.full((N_CLASSES,), 0.3)
    named = name_groups(means, share, text).likely
    prototypes = normalize(text - text.mean(0), dim=1)
    near = (means @ prototypes.T).numpy()
    totals = {
        order: sum(near[group, name] for name, group in enumerate(order))
        for order in permutations(range(N_CLASSES))
    }
    best, second = sorted(totals, key=lambda order: -totals[order])[:2]
    if totals[best] > totals[second] + 0.1:
        assert tuple(named.argmax(0).tolist()) == best


def test_a_name_whose_text_points_nowhere_gets_what_the_others_leave() -> None:
    means, share, text = problem(3)
    random = torch.Generator().manual_seed(1)
    text[2] = normalize(torch.randn(DIM, generator=random), dim=0)
    named = name_groups(means, share, text).likely
    assert named[:, 2].argmax() == 2
    assert named[2, 2] > 0.5


def test_what_is_in_every_image_is_no_class() -> None:
    means, share, text = problem(4)
    common = share.clone()
    common[2] = 1.0
    assert name_groups(means, common, text).likely[2].sum() < 0.2
    assert name_groups(means, share, text).likely[2, 2] > 0.8


def test_with_fewer_groups_than_names_some_have_none() -> None:
    means, share, text = problem(5)
    named = name_groups(means[:3], share[:3], text).likely
    assert torch.equal(named[:, :3].argmax(0), torch.arange(3))
    assert named[:, :3].sum(0).min() > 0.8
    assert named[:, 3:].sum(0).max() < 0.2


def test_text_that_is_the_same_for_all() -> None:
    means, share, text = problem(6)
    for table in name_groups(means, share, text[:1].expand(N_CLASSES, -1)):
        assert table.isfinite().all()


def of_all_orders(odds: Tensor) -> Tensor:
    """How likely each pair is among all ways to give names (C) to groups (G) or to none, by their odds."""
    n_groups, n_classes = odds.shape
    total, pairs = 0.0, torch.zeros_like(odds)
    for groups in product([*range(n_groups), None], repeat=n_classes):
        given = [(group, name) for name, group in enumerate(groups) if group is not None]
        if len({group for group, _ in given}) < len(given):
            continue
        nats = sum(float(odds[pair]) for pair in given)
        weight = math.exp(nats) * naming._UNNAMED ** (n_classes - len(given))
        total += weight
        for pair in given:
            pairs[pair] += weight
    return pairs / total


def far_from_counted(sharpness: float, monkeypatch: pytest.MonkeyPatch) -> float:
    """Greatest difference from counting, on average over problems of 4 names and 5 groups."""
    monkeypatch.setattr(naming, "_SHARPNESS", sharpness)
    worst = []
    for seed in range(12):
        random = torch.Generator().manual_seed(seed)
        odds = 4 * torch.randn(5, 4, generator=random).double() - 3
        odds[:4] += 6 * torch.eye(4)
        worst.append(float((naming._balance(odds) - of_all_orders(odds)).abs().max()))
    return fmean(worst)


def test_balanced_names_are_nearly_those_of_all_orders_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = far_from_counted(naming._SHARPNESS, monkeypatch)
    assert ours < 0.1
    assert ours < far_from_counted(1.0, monkeypatch) / 1.5


def torn(lead: float) -> tuple[Tensor, Tensor, Tensor]:
    """A problem in which the texts of the first two classes lie between both groups, up to a lead."""
    means, share, text = problem(0)
    between = normalize(text[0] + text[1], dim=0)
    for name in (0, 1):
        text[name] = normalize(between + lead * text[name], dim=0)
    return means, share, text


def test_names_that_may_be_the_other_way_round_have_both_groups() -> None:
    likely, parts = name_groups(*torn(0.025))
    assert likely[:2, :2].diagonal().min() > 0.65  # each leans to its own
    torch.testing.assert_close(parts[:2, :2], torch.full((2, 2), 0.5), atol=1e-5, rtol=0)
    torch.testing.assert_close(parts.sum(0), torch.ones(N_CLASSES))
    others = torch.arange(2, N_CLASSES)
    assert parts[others, others].min() > 0.8


def test_names_that_are_told_apart_keep_their_groups() -> None:
    likely, parts = name_groups(*torn(2.0))
    assert parts.diagonal().min() > 0.9
    torch.testing.assert_close(parts, likely / likely.sum(0))


def test_a_group_is_shared_little_by_little() -> None:
    """No step in between: a little more of a lead changes what is shared by a little."""
    shared = [float(name_groups(*torn(lead)).parts[1, 0]) for lead in torch.linspace(0, 0.1, 41)]
    assert max(abs(one - two) for one, two in pairwise(shared)) < 0.1
    assert shared[0] > 0.49
    assert shared[-1] < 0.1
