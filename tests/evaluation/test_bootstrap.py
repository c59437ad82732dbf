from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from piaa.errors import InputError
from piaa.evaluation.bootstrap import map_interval, paired_interval, resampled_map


def world(seed: int, n: int, strength: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, 3)) < 0.3).astype(int)
    return strength * labels + rng.standard_normal((n, 3)), labels


def test_each_draw_is_scikit_learn_on_the_drawn_images() -> None:
    scores, labels = world(0, 25, 1.0)
    scores = scores.round(1)
    found = resampled_map(scores, labels, rounds=70, seed=4)
    rng = np.random.default_rng(4)
    picks = np.concatenate([rng.integers(0, 25, (50, 25)), rng.integers(0, 25, (20, 25))])
    for value, pick in zip(found, picks, strict=True):
        each = [
            average_precision_score(labels[pick, c], scores[pick, c])
            for c in range(3)
            if labels[pick, c].any()
        ]
        assert value == pytest.approx(np.mean(each), abs=1e-12)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    truth = np.mean([resampled_map(*world(99, 20_000, 1.0), rounds=2).mean()])
    inside = 0
    for seed in range(60):
        found = map_interval(*world(seed, 200, 1.0), rounds=100)
        inside += found.low <= truth <= found.high
    assert inside / 60 >= 0.8


def test_pairs_tell_a_difference_that_single_intervals_hide() -> None:
    scores, labels = world(5, 400, 1.0)
    rng = np.random.default_rng(6)
    better = scores + 0.1 * labels
    same = scores + 1e-9 * rng.standard_normal(scores.shape)
    alone = map_interval(scores, labels, rounds=200)
    assert alone.low < alone.value < alone.high
    gain = paired_interval(better, scores, labels, rounds=200)
    assert gain.excludes_zero
    assert alone.low < gain.value + alone.value < alone.high
    assert not paired_interval(same, scores, labels, rounds=200).excludes_zero
    back = paired_interval(scores, better, labels, rounds=200)
    assert (back.low, back.high) == pytest.approx((-gain.high, -gain.low))


def test_the_same_seed_gives_the_same_interval() -> None:
    scores, labels = world(7, 50, 1.0)
    first, again = (map_interval(scores, labels, rounds=20, seed=3) for _ in range(2))
    assert first == again
    assert first != map_interval(scores, labels, rounds=20, seed=4)
    with pytest.raises(InputError, match="at least 2 rounds"):
        map_interval(scores, labels, rounds=1)


def test_a_thousand_rounds_on_a_whole_benchmark_take_seconds() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random((4952, 20)) < 0.07).astype(int)
    scores = labels + rng.standard_normal(labels.shape)
    start = time.process_time()
    resampled_map(scores, labels, rounds=100)
    assert time.process_time() - start < 3
