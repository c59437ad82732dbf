from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from piaa.mixtures import fit_mixture


def two_heaps(seed: int, n: int, share: float, distance: float) -> Tensor:
    """(n,) scores: a heap of deviation 1 at -1, and `share` of the images at `distance` above it."""
    rng = np.random.RandomState(seed)
    return torch.from_numpy(rng.standard_normal(n) - 1 + distance * (rng.rand(n) < share)).float()


WORLDS = [(0.05, 5.0), (0.2, 3.0), (0.5, 4.0), (0.9, 4.0), (0.02, 8.0), (0.3, 1.0)]


class TestAgainstScikitLearn:
    @pytest.mark.parametrize(("share", "distance"), WORLDS)
    def test_likelihood(self, share: float, distance: float) -> None:
        scores = two_heaps(1, 800, share, distance)
        found = fit_mixture(scores[:, None])
        oracle = GaussianMixture(
            2, covariance_type="tied", n_init=10, max_iter=2000, tol=1e-9, random_state=0
        ).fit(scores[:, None].numpy())
        single = -0.5 * (1 + math.log(2 * math.pi * float(scores.double().var(unbiased=False))))
        best = oracle.score(scores[:, None].numpy()) - single
        assert float(found.gain) == pytest.approx(max(best, 0), abs=3e-3)
        if best > 0.02:  # else many mixtures are equally good
            assert sorted(oracle.means_.ravel()) == pytest.approx(
                [float(found.low), float(found.high)], abs=0.05
            )
            assert float(found.share) == pytest.approx(
                oracle.weights_[oracle.means_.ravel().argmax()], abs=0.01
            )
            deviation = math.sqrt(oracle.covariances_.item())
            assert float(found.deviation) == pytest.approx(deviation, rel=0.02)

    def test_posterior_is_linear_in_the_score(self) -> None:
        scores = two_heaps(2, 500, 0.3, 4.0)
        found = fit_mixture(scores[:, None])
        oracle = GaussianMixture(2, covariance_type="tied", n_init=5, tol=1e-9, random_state=0)
        oracle.fit(scores[:, None].numpy())
        high = oracle.means_.ravel().argmax()
        expected = oracle.predict_proba(scores[:, None].numpy())[:, high]
        mine = torch.sigmoid(found.slope * (scores - found.crossing))
        np.testing.assert_allclose(mine.numpy(), expected, atol=0.02)


class TestProperties:
    def test_columns_do_not_feel_each_other(self) -> None:
        columns = [two_heaps(seed, 300, *world) for seed, world in enumerate(WORLDS)]
        together = fit_mixture(torch.stack(columns, 1))
        for c, column in enumerate(columns):
            alone = fit_mixture(column[:, None])
            for name, value in vars(alone).items():
                torch.testing.assert_close(getattr(together, name)[c], value[0])

    def test_shifting_and_scaling_the_scores(self) -> None:
        scores = two_heaps(3, 300, 0.2, 4.0)[:, None].double()
        one, other = fit_mixture(scores), fit_mixture(scores * 10 - 7)
        torch.testing.assert_close(other.crossing, one.crossing * 10 - 7)
        torch.testing.assert_close(other.slope, one.slope / 10)
        torch.testing.assert_close(other.gain, one.gain)

    def test_order_does_not_matter(self) -> None:
        scores = two_heaps(4, 300, 0.2, 4.0)[:, None]
        one, other = fit_mixture(scores), fit_mixture(scores.flip(0))
        torch.testing.assert_close(one.crossing, other.crossing)

    @pytest.mark.parametrize("n", [1, 2, 3, 7])
    def test_few_and_equal_scores(self, n: int) -> None:
        rng = np.random.RandomState(n)
        columns = [np.zeros(n), np.full(n, -3.5), rng.standard_normal(n), np.arange(n) * 1e4]
        found = fit_mixture(torch.from_numpy(np.stack(columns, 1)).float())
        for name in ("low", "high", "deviation", "share", "gain", "slope"):
            value = getattr(found, name) if name == "slope" else vars(found)[name]
            assert value.isfinite().all(), name
        assert (found.low <= found.high).all()
        assert (found.deviation > 0).all()
        assert ((found.share > 0) & (found.share < 1)).all()
        assert (found.gain >= 0).all()
        assert found.slope[:2].tolist() == [0, 0]
        assert found.low[1] == found.high[1] == -3.5
