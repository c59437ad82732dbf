from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from piaa.evaluation.sizes import labels_by_size, map_by_size


def test_each_size_against_all_images_without_the_class() -> None:
    labels = np.array([[1], [1], [1], [1], [0], [0], [-1]], dtype=np.int8)
    shares = np.array([[0.01], [0.05], [0.2], [np.nan], [0], [0], [0]], dtype=np.float32)
    found = labels_by_size(labels, shares)
    assert found["small"].T.tolist() == [[1, -1, -1, -1, 0, 0, -1]]
    assert found["medium"].T.tolist() == [[-1, 1, -1, -1, 0, 0, -1]]
    assert found["large"].T.tolist() == [[-1, -1, 1, -1, 0, 0, -1]]


def test_map_by_size_is_scikit_learns_on_the_images_that_count() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (200, 2)).astype(np.int8)
    shares = np.where(labels == 1, rng.random((200, 2)) * 0.3, 0).astype(np.float32)
    scores = rng.random((200, 2)) + shares
    found = map_by_size(scores, labels, shares)
    for size, low, high in (("small", 0, 0.05), ("large", 0.2, 1)):
        each = []
        for c in range(2):
            counts = (labels[:, c] == 0) | ((shares[:, c] >= low) & (shares[:, c] < high))
            each.append(average_precision_score(labels[counts, c], scores[counts, c]))
        assert found[size] == pytest.approx(np.mean(each))
    assert found["large"] > found["small"]


def test_sizes_that_no_object_has() -> None:
    labels, shares = np.array([[1], [0]], dtype=np.int8), np.array([[0.5], [0]], dtype=np.float32)
    found = map_by_size([[1.0], [0.0]], labels, shares)
    assert found["large"] == 1
    assert np.isnan(found["small"])
