"""scikit-learn is the oracle of every number here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score

from piaa.errors import InputError
from piaa.evaluation.metrics import (
    average_precisions,
    f1_scores,
    mean_average_precision,
    rankings,
)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 60), st.integers(1, 20))
def test_average_precision_is_scikit_learns(seed: int, n: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, (n, 3)) / levels  # ties wherever levels are few
    labels = rng.integers(0, 2, (n, 3))
    labels[rng.integers(n)] = 1
    expected = [average_precision_score(labels[:, c], scores[:, c]) for c in range(3)]
    np.testing.assert_allclose(average_precisions(scores, labels), expected, atol=1e-9, rtol=0)


def test_close_scores_on_many_images() -> None:
    rng = np.random.default_rng(0)
    scores = 1 - rng.random((5000, 4)).astype(np.float32) * 1e-6
    labels = (rng.random((5000, 4)) < 0.1).astype(int)
    expected = [average_precision_score(labels[:, c], scores[:, c]) for c in range(4)]
    np.testing.assert_allclose(average_precisions(scores, labels), expected, atol=1e-9, rtol=0)


def test_weights_are_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    scores, labels = rng.integers(0, 9, (40, 1)) / 9, rng.integers(0, 2, (40, 1))
    weights = rng.integers(0, 4, (6, 40)).astype(float)
    expected = [
        average_precision_score(labels[:, 0], scores[:, 0], sample_weight=w) for w in weights
    ]
    np.testing.assert_allclose(
        rankings(scores, labels)[0].average_precision(weights), expected, atol=1e-9, rtol=0
    )


def test_it_is_not_the_interpolated_value() -> None:
    scores = np.array([[0.9], [0.8], [0.7], [0.6]])
    labels = np.array([[0], [1], [0], [1]])
    assert average_precisions(scores, labels)[0] == pytest.approx(0.5)


def test_images_that_do_not_count() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.random((30, 1)), rng.integers(0, 2, (30, 1))
    marked = np.where(rng.random((30, 1)) < 0.3, -1, labels)
    kept = marked[:, 0] >= 0
    assert average_precisions(scores, marked)[0] == pytest.approx(
        average_precision_score(labels[kept, 0], scores[kept, 0]), abs=1e-12
    )


def test_classes_without_a_positive_are_left_out() -> None:
    scores = np.array([[0.9, 0.9], [0.1, 0.2]])
    labels = np.array([[1, 0], [0, 0]])
    assert np.isnan(average_precisions(scores, labels)[1])
    assert mean_average_precision(scores, labels) == 1
    with pytest.raises(InputError, match="No class has a positive"):
        mean_average_precision(scores, np.zeros((2, 2)))
    with pytest.raises(InputError, match="No class has a positive"):
        mean_average_precision(scores, -np.ones((2, 2)))


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([[0.1, np.nan]], [[1, 0]], "1 scores are not finite"),
        ([[0.1]], [[1, 0]], r"\(1, 1\) and \(1, 2\)"),
        ([[0.1]], [[2]], "1, 0, or -1"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "one shape"),
    ],
)
def test_what_cannot_be_ranked(scores: object, labels: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        average_precisions(scores, labels)  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40))
def test_f1_is_scikit_learns(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    tags, labels = rng.random((n, 5)) < 0.4, rng.integers(0, 2, (n, 5))
    labels[0] = 1
    found = f1_scores(tags, labels)
    quiet = {"zero_division": 0.0}
    assert found.of1 == pytest.approx(f1_score(labels, tags, average="micro", **quiet))
    assert found.macro == pytest.approx(f1_score(labels, tags, average="macro", **quiet))
    assert found.precision == pytest.approx(precision_score(labels, tags, average="micro", **quiet))
    assert found.recall == pytest.approx(recall_score(labels, tags, average="micro", **quiet))
    p = precision_score(labels, tags, average="macro", **quiet)
    r = recall_score(labels, tags, average="macro", **quiet)
    assert found.cf1 == pytest.approx(2 * p * r / (p + r) if p + r else 0)


def test_f1_leaves_out_what_does_not_count() -> None:
    tags = np.array([[1, 1], [1, 0], [0, 1]], dtype=bool)
    labels = np.array([[1, -1], [0, 1], [1, 0]])
    found = f1_scores(tags, labels)
    assert (found.precision, found.recall) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert found.tags == pytest.approx(4 / 3)
    with pytest.raises(InputError, match="differ in shape"):
        f1_scores(tags, labels[:2])
    with pytest.raises(InputError, match="there is no F1"):
        f1_scores(tags, np.zeros((3, 2)))


def test_means_are_of_the_classes_that_have_a_positive() -> None:
    scores = np.array([[0.9, 0.1, 0.3], [0.2, 0.8, 0.4], [0.1, 0.7, 0.2]])
    labels = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0]])
    each = average_precisions(scores, labels)
    assert each[0] == 1
    assert each[1] < 0.7
    assert mean_average_precision(scores, labels) == pytest.approx((each[0] + each[1]) / 2)
    tags = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=bool)
    found = f1_scores(tags, labels)
    assert found.macro == pytest.approx((1 + 2 / 3) / 2)
    assert found.cf1 == pytest.approx(2 * 1 * 0.75 / 1.75)


def test_images_of_no_weight_at_the_top() -> None:
    scores, labels = np.array([[0.9], [0.8], [0.1]]), np.array([[0], [1], [0]])
    (ranking,) = rankings(scores, labels)
    assert ranking.average_precision(np.array([[0.0, 1.0, 1.0]])).tolist() == [1.0]


def test_one_label_out_of_range_is_enough() -> None:
    with pytest.raises(InputError, match="1, 0, or -1"):
        average_precisions([[0.1, 0.2]], [[1, 2]])
