from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from piaa.thresholds import _spread_out, best_thresholds, claimed, estimate_thresholds

SHARES = (0.04, 0.1, 0.3, 0.6)


def world(seed: int, n: int, distance: float) -> tuple[Tensor, Tensor]:
    """Scores (n, C) and labels: every class at a place and of a spread of its own."""
    rng = np.random.RandomState(seed)
    labels = rng.rand(n, len(SHARES)) < np.array(SHARES)
    scores = rng.standard_normal(labels.shape) + distance * labels
    return torch.from_numpy(scores - 3).float(), torch.from_numpy(labels)


def f1(tagged: Tensor, labels: Tensor) -> Tensor:
    return 2 * (tagged & labels).sum(0) / (tagged.sum(0) + labels.sum(0))


class TestWithoutLabels:
    @pytest.mark.parametrize(("distance", "least"), [(6.0, 0.99), (4.0, 0.97), (3.0, 0.94)])
    def test_near_the_best_in_hindsight(self, distance: float, least: float) -> None:
        scores, labels = world(0, 2000, distance)
        cuts = estimate_thresholds(scores)
        best = f1(scores >= best_thresholds(scores, labels), labels)
        found = f1(scores >= cuts.thresholds, labels)
        assert (found / best).mean() > least
        assert cuts.slope > 0
        assert torch.equal(cuts.prevalence, (scores >= cuts.thresholds).float().mean(0))
        assert (cuts.prevalence - torch.tensor(SHARES)).abs().max() < 0.06

    def test_few_images_share_one_cut(self) -> None:
        scores, _ = world(1, 12, 5.0)
        cuts = estimate_thresholds(scores)
        assert len(cuts.thresholds.unique()) == 1

    @pytest.mark.parametrize("n", [1, 2, 5, 40])
    def test_constant_and_tiny(self, n: int) -> None:
        mixed = torch.cat([torch.zeros(n, 1), torch.full((n, 1), 5.0), torch.randn(n, 1)], 1)
        for scores in (torch.full((n, 1), -2.0), mixed):
            cuts = estimate_thresholds(scores)
            assert cuts.thresholds.isfinite().all()
            assert cuts.thresholds.dtype == torch.float32
            assert 0 < cuts.slope < float("inf")
            assert ((cuts.prevalence >= 0) & (cuts.prevalence <= 1)).all()

    def test_order_does_not_matter(self) -> None:
        scores, _ = world(2, 200, 4.0)
        one, other = estimate_thresholds(scores), estimate_thresholds(scores.flip(0))
        torch.testing.assert_close(one.thresholds, other.thresholds)


class TestWithLabels:
    @settings(max_examples=60, deadline=None)
    @given(
        scores=st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 2.0]), min_size=1, max_size=9),
        data=st.data(),
    )
    def test_no_cut_is_better(self, scores: list[float], data: st.DataObject) -> None:
        n = len(scores)
        labels = torch.tensor(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))[:, None]
        values = torch.tensor(scores)[:, None]
        found = best_thresholds(values, labels)
        if not labels.any():
            assert found.isnan().all()
            return
        every = [float(f1(values >= cut, labels)) for cut in (*scores, 99.0)]
        assert float(f1(values >= found, labels)) == pytest.approx(max(every))

    def test_between_the_two_scores(self) -> None:
        scores = torch.tensor([[3.0], [2.0], [0.0], [-1.0]])
        labels = torch.tensor([[1], [1], [0], [0]]).bool()
        assert best_thresholds(scores, labels).tolist() == [1.0]

    def test_neighboring_floats_are_told_apart(self) -> None:
        for start in (1.0, 1.0 + 2**-23, -3.0):
            low = torch.tensor(start)
            high = torch.nextafter(low, torch.tensor(9.0))
            scores = torch.stack([low, high])[:, None]
            found = best_thresholds(scores, torch.tensor([[False], [True]]))
            assert (scores >= found).flatten().tolist() == [False, True]


def test_a_part_of_the_scores_is_enough_for_what_all_share(monkeypatch: pytest.MonkeyPatch) -> None:
    random = torch.Generator().manual_seed(4)
    holds = torch.rand(2000, 12, generator=random) < 0.1
    scores = torch.randn(2000, 12, generator=random) + 4 * holds
    every = estimate_thresholds(scores).thresholds
    some = _spread_out(scores, 1000)
    assert 800 < len(some) <= 1000
    place = (scores.reshape(-1) == some).nonzero()[:, 1] % 12
    assert place.bincount(minlength=12).min() > 60  # no class is left out
    assert _spread_out(scores, 10**6).shape == (24000, 1)
    monkeypatch.setattr("piaa.thresholds._POOLED", 1000)
    assert torch.allclose(estimate_thresholds(scores).thresholds, every, atol=0.1)
    assert not torch.equal(estimate_thresholds(scores).thresholds, every)


class TestLookAlikes:
    def world(self, n: int = 600) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of six classes: the first two are look-alikes, and every image holds one at most."""
        generator = torch.Generator().manual_seed(4)
        kind = torch.randint(10, (n,), generator=generator)
        holds = torch.nn.functional.one_hot(kind, 10)[:, :6].bool()
        scores = torch.randn(n, 6, generator=generator) + 6 * holds
        scores[:, 1] += 4 * holds[:, 0]
        scores[:, 0] += 4 * holds[:, 1]
        return scores, holds

    def test_who_claims_what(self) -> None:
        scores, holds = self.world()
        lost = claimed(scores)
        assert not lost[:, 2:].any()
        assert lost[holds[:, 0], 1].float().mean() > 0.4
        assert lost[holds[:, 0], 0].float().mean() < 0.05

    def test_a_plain_transcription(self) -> None:
        scores, _ = self.world(200)
        z = (scores - scores.mean(0)) / scores.std(0, unbiased=False)
        alike = torch.corrcoef(scores.T) > 0.5
        for image in range(len(scores)):
            for column in range(6):
                others = [o for o in range(6) if o != column and alike[column, o]]
                above = any(z[image, o] > z[image, column] + 0.4 for o in others)
                assert bool(claimed(scores)[image, column]) == above

    def test_thresholds_do_not_count_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mixture of one class's own scores takes the other's images for likely ones."""
        scores, holds = self.world()
        known = f1(scores >= estimate_thresholds(scores).thresholds, holds)
        monkeypatch.setattr("piaa.thresholds.ALIKE", 1.0)
        unknown = f1(scores >= estimate_thresholds(scores).thresholds, holds)
        assert (known[:2] > unknown[:2] + 0.02).all()
        assert torch.equal(known[2:], unknown[2:])

    def test_chance_makes_no_look_alikes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        noise = torch.randn(25, 200, generator=torch.Generator().manual_seed(0))
        assert claimed(noise).any(0).float().mean() < 0.2
        monkeypatch.setattr("piaa.thresholds.CHANCE", 0.0)
        assert claimed(noise).any(0).float().mean() > 0.5

    def test_many_classes_in_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scores, _ = self.world()
        whole = claimed(scores)
        monkeypatch.setattr("piaa.thresholds._CLASSES_AT_ONCE", 1)
        assert torch.equal(claimed(scores), whole)
