"""Whether a collection holds a class: every sign by itself, and against a plain count."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from piaa.auto.branch_statistics import agreement
from piaa.auto.presence import nearest_twin, presence_of, witness
from worlds import split_scores


def branches(*seeds: int, split: float = 5.0) -> list[Tensor]:
    """T, X and g of 400 images, each of which holds one of eight classes."""
    return [split_scores(400, 8, seed=seed, split=split) for seed in seeds]


def test_classes_that_are_there_are_seen() -> None:
    found = presence_of(*branches(29, 30, 31))
    assert found.seen.min() > 0.9
    assert found.believed.min() > 0.9


@pytest.mark.parametrize(("n", "count"), [(3, 3), (40, 5), (400, 25)])
def test_the_witness_is_a_count_of_images(n: int, count: int) -> None:
    random = torch.Generator().manual_seed(n)
    crossfit, cls = torch.randn(2, n, 8, generator=random)
    cls[:, 2] += 9  # a name that is near to everything stands out nowhere
    expected = []
    for c in range(8):
        highest = sorted(range(n), key=lambda i: -float(crossfit[i, c]))[:count]
        above = [(cls[i] - cls.mean(0)).tolist() for i in highest]
        expected.append(sum(row[c] == max(row) for row in above) / count)
    assert witness(crossfit, cls).tolist() == pytest.approx(expected)
    assert 0 < sum(expected) < 8


def test_what_the_global_vector_does_not_see_is_not_believed() -> None:
    """X finds class 7 (bicycle) in images that stand out for other things (wheels)."""
    text, crossfit, cls = branches(32, 33, 34)
    noise = torch.randn(400, generator=torch.Generator().manual_seed(35))
    crossfit[:, 7] = 9.0 * (torch.arange(400) % 16 == 3) + noise + 0.3 * text[:, 7]
    found = presence_of(text, crossfit, cls)
    assert found.seen[7] == found.believed[7] == 0
    assert found.seen[:7].min() > 0.9


def test_a_class_that_others_always_outdo_is_taken_for_absent() -> None:
    """It is never in the images; its scores are highest where another class is."""
    parts = branches(11, 12, 13, split=6.0)
    for branch, noise in zip(parts, (14, 15, 16), strict=True):
        generator = torch.Generator().manual_seed(noise)
        branch[:, 7] = 0.6 * branch[:, 0] + torch.randn(400, generator=generator)
    there = torch.arange(400) % 8 != 7
    found = presence_of(*(branch[there] for branch in parts))
    assert found.seen[7] < 0.3
    assert found.seen[:7].min() > 0.8


def test_what_is_another_classes_is_not_learnt() -> None:
    """Text and global vector agree on class 7 (bicycle), but X finds class 6 (motorbike) under its name."""
    text, crossfit, cls = branches(29, 30, 31)
    crossfit[:, 7] = crossfit[:, 6] + 0.1 * crossfit[:, 7]
    found = presence_of(text, crossfit, cls)
    assert found.seen[7] == found.believed[7] == 0
    assert found.believed[:7].min() > 0.9


def test_look_alikes_are_told_from_a_correlation_of_two_thirds_on() -> None:
    """With a global vector that cannot tell classes, that X has one for another is all that tells."""
    text, crossfit, _ = branches(29, 30, 31)
    noise = torch.randn(400, 8, generator=torch.Generator().manual_seed(6))
    for own, alike, believed in ((1.2, 0.58, 1.0), (0.85, 0.725, 0.5), (0.6, 0.84, 0.0)):
        mixed = crossfit.clone()
        mixed[:, 7] = crossfit[:, 6] + own * crossfit[:, 7]
        assert float(agreement(mixed[:, 6:7], mixed[:, 7:])) == pytest.approx(alike, abs=0.02)
        found = presence_of(text, mixed, noise)
        assert float(found.believed[7]) == pytest.approx(believed, abs=0.12)


def test_a_global_vector_that_sees_nothing_of_any_class_denies_none() -> None:
    text, crossfit, _ = branches(29, 30, 31)
    noise = torch.randn(400, 8, generator=torch.Generator().manual_seed(6))
    found = presence_of(text, crossfit, noise)
    assert found.seen.mean() < 0.5
    assert found.believed.min() == 1


def test_twins_are_found_some_classes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class whose learnt scores are those of a class that agrees better with its text; by all pairs."""
    random = torch.Generator().manual_seed(0)
    crossfit = torch.randn(90, 11, generator=random)
    text = crossfit + 2 * torch.rand(11, generator=random) * torch.randn(90, 11, generator=random)
    crossfit[:, 9] = crossfit[:, 3] + 0.1 * crossfit[:, 9]
    own = agreement(text, crossfit).tolist()
    pairs = torch.corrcoef(crossfit.T).tolist()
    expected = [max([0.0, *(pairs[c][d] for d in range(11) if own[d] > own[c])]) for c in range(11)]
    monkeypatch.setattr("piaa.auto.presence._CLASSES_AT_ONCE", 4)
    assert nearest_twin(text, crossfit).tolist() == pytest.approx(expected, abs=1e-5)
    assert expected[9] > 0.9
