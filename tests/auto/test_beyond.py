"""What learnt branches say of images beyond any that they were learnt from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from piaa.auto.beyond import CLEARLY, Beyond
from piaa.evaluation.metrics import mean_average_precision


def drawn(n: int, seed: int, n_classes: int = 3) -> torch.Tensor:
    return torch.randn(n, n_classes, generator=torch.Generator().manual_seed(seed))


def plain(by_text: torch.Tensor, by_learned: torch.Tensor, column: int) -> tuple[float, ...]:
    """Level, width and floor of a class, one image after another."""
    images = sorted(range(len(by_text)), key=lambda i: -float(by_text[i, column]))
    images = images[: max(5, len(by_text) // 50)]
    text = [float(by_text[i, column]) for i in images]
    learned = [float(by_learned[i, column]) for i in images]
    spread = float(by_text[:, column].double().std(unbiased=False))
    return sum(text) / len(text), CLEARLY * spread, sum(learned) / len(learned)


@pytest.mark.parametrize("n", [3, 40, 700])
def test_levels_are_those_of_the_highest_images(n: int) -> None:
    by_text, by_learned = drawn(n, 1), drawn(n, 2)
    found = Beyond.of(by_text, by_learned)
    for column in range(3):
        expected = plain(by_text, by_learned, column)
        seen = [float(part[column]) for part in (found.level, found.width, found.floor)]
        assert seen == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_learnt_branches_are_lifted_to_the_floor_and_never_lowered() -> None:
    limits = Beyond(torch.tensor([2.0]), torch.tensor([0.5]), torch.tensor([1.0]))
    by_text = torch.tensor([[1.9], [2.0], [2.25], [2.5], [9.0], [9.0]])
    by_learned = torch.tensor([[-3.0], [-3.0], [-3.0], [-3.0], [-3.0], [4.0]])
    assert limits.lift(by_text, by_learned).flatten().tolist() == [-3, -3, -1, 1, 1, 4]


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000), st.integers(2, 60))
def test_more_evidence_is_never_less(seed: int, n: int) -> None:
    by_text, by_learned = drawn(n, seed), drawn(n, seed + 1)
    found = Beyond.of(by_text, by_learned)
    for more_text, more_learned in ((0.3, 0.0), (0.0, 0.3)):
        before = by_text + found.lift(by_text, by_learned)
        text, learned = by_text + more_text, by_learned + more_learned
        assert (text + found.lift(text, learned) >= before - 1e-6).all()


def test_a_text_that_is_not_heard_lifts_nothing() -> None:
    by_text, by_learned = torch.zeros(50, 3), drawn(50, 3)
    assert torch.equal(Beyond.of(by_text, by_learned).lift(by_text, by_learned), by_learned)


def test_classes_off_a_shortlist_stay_off() -> None:
    by_text, by_learned = drawn(50, 4), drawn(50, 5)
    found = Beyond.of(by_text, by_learned)
    by_text[:, 1], by_learned[:, 1] = -torch.inf, 0.0
    lifted = found.lift(by_text, by_learned)
    assert lifted.isfinite().all()
    assert (lifted[:, 1] == 0).all()


def test_what_was_learnt_from_look_alikes_no_longer_hides_the_class_itself() -> None:
    """Learning saw look-alikes, at text 2 and learnt 3; the class itself is at 3.5 and -1."""
    kinds = {"nothing": (0.0, 0.0), "look-alike": (2.0, 3.0), "the class": (3.5, -1.0)}

    def images(*names: str) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.tensor([kinds[name] for name in names])
        return tuple((places + 0.2 * drawn(len(names), 7, 2))[:, [i]] for i in (0, 1))

    found = Beyond.of(*images(*["nothing"] * 180, *["look-alike"] * 20))
    text, learned = images(*["nothing"] * 80, *["look-alike"] * 10, *["the class"] * 10)
    truth = (torch.arange(100) >= 90).int()[:, None].numpy()
    assert mean_average_precision(text + learned, truth) < 0.5
    assert mean_average_precision(text + found.lift(text, learned), truth) == 1
