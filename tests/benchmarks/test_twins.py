"""What no ranking can reach for two sets of images at once, against all rankings and scikit-learn."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from worlds import varied_world

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 1), (2, 3), (3, 3)])
def test_the_best_of_all_rankings(first: int, second: int) -> None:
    from twins import best_for_both

    image = np.array([0] * first + [1] * second + [2])
    expected = max(
        sum(average_precision_score(image == kind, -np.array(order)) for kind in (0, 1))
        for order in permutations(range(len(image)))
    )
    assert best_for_both(first, second) == pytest.approx(expected)


def test_a_world_and_its_twin() -> None:
    """Of the two presets one is right by these names, the other with two of them the other way round."""
    from synthetic import FIT, features, percent, published
    from twins import widest

    kind = {"n_classes": 5, "text": 0.3, "labels": (1, 1), "cls": 0.3, "cls_noise": 0.6}
    world = varied_world(25026, FIT + 200, **kind)
    with torch.inference_mode():
        found = widest(world)
        seen = features(world, slice(FIT, None))
        by_preset = {name: published(world, seen, name) for name in found.presets}
    labels = world.labels[FIT:]
    turned = labels[:, [0, 1, 2, 4, 3]]
    one, two = (by_preset[name] for name in found.presets)
    measured = [(percent(one, a), percent(two, b)) for a, b in ((labels, turned), (turned, labels))]
    assert any(found.reached == pytest.approx(pair, abs=0.1) for pair in measured)
    assert found.gap > 0.3
    assert found.most > 80


def test_what_any_ranking_has_is_not_less_than_what_a_preset_has_in_both() -> None:
    from twins import ORDERS, best_for_both

    random = np.random.RandomState(0)
    kind = random.randint(0, 5, 60)
    for _ in range(20):
        scores = random.standard_normal((60, 5))
        aps = np.array(
            [[average_precision_score(kind == g, scores[:, c]) for g in range(5)] for c in range(5)]
        )
        a, b = ORDERS[random.randint(120)], ORDERS[random.randint(120)]
        sizes = np.bincount(kind)
        most = sum(
            2.0 if g == h else best_for_both(sizes[g], sizes[h]) for g, h in zip(a, b, strict=True)
        )
        assert (aps[range(5), a] + aps[range(5), b]).sum() <= most + 1e-9
