"""The rule that knows all but names, against going through every order one by one."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [2, 5, 7])
def test_all_orders(seed: int, n_classes: int) -> None:
    from name_limit import name_odds

    nats = 3 * np.random.RandomState(seed).standard_normal((n_classes, n_classes))
    expected, total = np.zeros_like(nats), 0.0
    for order in permutations(range(n_classes)):
        likely = np.exp(sum(nats[name, place] for name, place in enumerate(order)))
        expected[np.arange(n_classes), order] += likely
        total += likely
    np.testing.assert_allclose(name_odds(nats), expected / total, rtol=1e-9)


def test_twenty_names() -> None:
    from name_limit import name_odds

    odds = name_odds(30 * np.eye(20)[np.random.RandomState(0).permutation(20)])
    np.testing.assert_allclose(odds.sum(0), 1)
    np.testing.assert_allclose(odds.sum(1), 1)
    assert odds.max(1).min() > 0.999


def test_means_are_those_of_the_images_so_far() -> None:
    from name_limit import seen_centers

    rng = np.random.RandomState(0)
    centers, labels = rng.standard_normal((3, 64)), np.array([[1, 1, 0]] * 200 + [[0, 0, 1]] * 200)
    (first, count), (second, more) = seen_centers(centers, labels, [200, 400], rng)
    assert count.tolist() == [1800, 1800, 0]
    assert more.tolist() == [1800, 1800, 3600]
    assert not first[2].any()
    np.testing.assert_array_equal(first[:2], second[:2])
    np.testing.assert_allclose(second, centers, atol=0.01)
    assert np.abs(second - centers).max() > 1e-4


def test_a_good_text_names_all_and_none_names_nothing() -> None:
    from name_limit import limit

    assert limit(0, 5, 0.75, (1, 3), [20, 100]) == [100, 100, 100]
    assert max(limit(0, 5, 0.0, (1, 3), [20, 100])) < 60


def test_more_classes_than_can_be_gone_through() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "name_limit.py"), "--classes", "21"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "20 at most, not 21" in done.stderr


def test_beside_the_default_in_the_same_worlds() -> None:
    from name_limit import beside, beside_row, limit
    from synthetic import FIT

    rows = beside(1, 5, 0.45, (1, 3))
    assert [rule for _, rule, _, _ in rows] == limit(1, 5, 0.45, (1, 3), [FIT])[:1] * 3
    for auto, rule, text, preset in rows:
        assert auto > text - 0.5
        assert auto > preset - 0.5
        assert rule > 99
    row = beside_row("name", [(90.0, 95.0, 92.0, 94.0), (91.0, 92.9, 80.0, 93.0)])
    assert " ".join(row.split()) == "name 2 90.5 94.0 86.0 93.5 1 2.0 0 0.0 2 4.0 0 0.1"


def test_equal_scores_are_no_level_of_their_own() -> None:
    """Fifty images of another class come first: of those that follow the best has one in 51, and so on."""
    from name_limit import ranked_by_chance
    from synthetic import percent

    holds = torch.tensor([0, 1, 0])[:, None].repeat_interleave(50, 0)
    scores = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64)[:, None].repeat_interleave(50, 0)
    k = np.arange(1, 51)
    expected = 100 * (k / (50 + k)).mean()
    assert ranked_by_chance(scores, holds, np.random.RandomState(0)) == pytest.approx(expected)
    assert percent(scores, holds) == pytest.approx(50)


def test_equal_scores_come_in_no_order() -> None:
    """By their places in the list it would be 100."""
    from name_limit import ranked_by_chance

    holds = torch.tensor([1, 0])[:, None].repeat_interleave(500, 0)
    found = ranked_by_chance(torch.zeros(1000, 1).double(), holds, np.random.RandomState(0))
    assert found == pytest.approx(50, abs=5)
