"""Outlier search and repair of SC-CLIP against scikit-learn and plain loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_frontends import PlainTower, plain_lof

from piaa.encoders.frontends.outliers import find_outliers, local_outlier_factor, repair


def tokens(seed: int, batch: int, count: int, width: int = 24) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, count, width, generator=generator)
    return x + 5 * torch.randn(width, generator=generator)  # a component that all tokens share


def test_textbook_score_is_scikit_learns() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    x = tokens(0, 3, 100)
    ours = local_outlier_factor(x, 30, textbook=True)
    for image, factor in zip(x, ours, strict=True):
        model = neighbors.LocalOutlierFactor(n_neighbors=30, metric="sqeuclidean").fit(
            image.numpy()
        )
        expected = torch.from_numpy(-model.negative_outlier_factor_).float()
        torch.testing.assert_close(factor, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("textbook", [False, True])
@pytest.mark.parametrize("count", [2, 5, 31, 60])
def test_scores_equal_the_plain_loop(textbook: bool, count: int) -> None:
    x = tokens(count, 2, count)
    ours = local_outlier_factor(x, 30, textbook=textbook)
    for image, factor in zip(x, ours, strict=True):
        expected = torch.tensor(plain_lof(image, 30, textbook))
        torch.testing.assert_close(factor, expected, atol=1e-4, rtol=1e-4)


def test_number_of_outliers_at_the_published_sizes() -> None:
    for count, outliers in ((196, 10), (256, 13)):
        mask = find_outliers(tokens(1, 4, count), neighbors=30, contamination=0.05, textbook=False)
        assert mask.sum(1).tolist() == [outliers] * 4


def test_identical_tokens_are_no_outliers_and_no_nan() -> None:
    x = torch.ones(2, 49, 16)
    for textbook in (False, True):
        assert local_outlier_factor(x, 30, textbook=textbook).isfinite().all()
        assert not find_outliers(x, neighbors=30, contamination=0.05, textbook=textbook).any()


def test_half_precision_tokens_of_large_norm() -> None:
    # Squared distances of these reach 1e6, far beyond float16's largest number.
    x = (300 * tokens(2, 1, 100)).half()
    reference = local_outlier_factor(x.double().float(), 30, textbook=False)
    ours = local_outlier_factor(x, 30, textbook=False)
    assert ours.isfinite().all()
    torch.testing.assert_close(ours, reference)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**31 - 1), st.floats(0.0, 1.0))
def test_repair_equals_the_plain_loop(rows: int, columns: int, seed: int, share: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    count = rows * columns
    outliers = torch.rand(2, count, generator=generator) < share
    x = torch.randn(2, count, 3, generator=generator)
    mended = repair(outliers, (rows, columns)) @ x
    plain = PlainTower.__new__(PlainTower)
    plain.rows, plain.columns = rows, columns
    for image in range(2):
        expected = plain.fill(x[image], outliers[image].nonzero().flatten().tolist())
        torch.testing.assert_close(mended[image], expected)
        assert torch.equal(mended[image][~outliers[image]], x[image][~outliers[image]])
