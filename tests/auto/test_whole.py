"""The classifier of the global vector against scikit-learn, and what it must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from piaa.auto.whole import learn_whole, taught

discriminant = pytest.importorskip("sklearn.discriminant_analysis")


def collection(
    n: int = 300, dim: int = 12, n_classes: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    holds = torch.rand(n, n_classes, generator=generator) < 0.3
    places = torch.randn(n_classes, dim, generator=generator)
    vectors = holds.float() @ places + torch.randn(n, dim, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1), holds


def test_direction_is_that_of_linear_discriminant_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hard labels and no shrinkage; the total covariance gives the within-class direction."""
    monkeypatch.setattr("piaa.auto.whole.SHRINKAGE", 1e-9)
    cls, holds = collection()
    ours = learn_whole(cls, holds.float(), torch.randn(300, 3)).weight
    for column in range(3):
        lda = discriminant.LinearDiscriminantAnalysis(solver="lsqr")
        theirs = lda.fit(cls.numpy(), holds[:, column].numpy()).coef_[0]
        mine = ours[:, column].double().numpy()
        cosine = mine @ theirs / np.linalg.norm(mine) / np.linalg.norm(theirs)
        assert cosine > 1 - 1e-5


def test_scores_have_mean_and_spread_of_what_they_join() -> None:
    cls, holds = collection()
    like = 3 + 2 * torch.randn(300, 3, generator=torch.Generator().manual_seed(2))
    scores = learn_whole(cls, holds.float(), like).scores(cls)
    torch.testing.assert_close(scores.mean(0), like.mean(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(scores.std(0), like.std(0), atol=1e-3, rtol=1e-3)


def test_order_of_images_does_not_matter() -> None:
    cls, holds = collection()
    like, order = torch.randn(300, 3), torch.randperm(300)
    first = learn_whole(cls, holds.float(), like)
    second = learn_whole(cls[order], holds[order].float(), like[order])
    torch.testing.assert_close(first.weight, second.weight, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_class_that_all_or_no_images_hold_stays_finite(value: float) -> None:
    cls, _ = collection()
    classifier = learn_whole(cls, torch.full((300, 1), value), torch.randn(300, 1))
    assert classifier.weight.isfinite().all()
    assert classifier.bias.isfinite().all()


def test_identical_images_teach_nothing() -> None:
    cls = torch.nn.functional.normalize(torch.ones(6, 4), dim=1)
    classifier = learn_whole(cls, torch.full((6, 2), 0.5), torch.zeros(6, 2))
    assert classifier.scores(cls).isfinite().all()


def test_taught_is_between_zero_and_one_and_ranks_as_evidence() -> None:
    evidence = torch.randn(200, 4, generator=torch.Generator().manual_seed(3))
    holds = taught(evidence)
    assert ((holds >= 0) & (holds <= 1)).all()
    for column in range(4):
        assert (holds[evidence[:, column].argsort(), column].diff() >= 0).all()
