"""Numbers that stay numbers: what holds of the closed forms for every finite input, however degenerate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import features_of, recognizer_of
from piaa import Config, paa
from piaa.auto.weighting import BranchWeights, weigh, with_whole
from piaa.auto.whole import learn_whole, taught
from piaa.config import Covariance
from piaa.mixtures import fit_mixture
from piaa.pvcl import gda
from piaa.thresholds import estimate_thresholds
from worlds import patch_world

few = settings(max_examples=12, deadline=None, derandomize=True)
pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")
LARGEST = 1e30
"""Of the scores tried. Evidence is log-odds, in the tens; the square of a float32 ends at 3e38."""


@st.composite
def score_tables(draw: st.DrawFn, least: int = 1, classes: int = 1) -> Tensor:
    """(n, C) float32, with columns that are constant, of two values, copies, tiny or huge."""
    n, n_classes = draw(st.integers(least, 30)), draw(st.integers(classes, 6))
    rng = np.random.RandomState(draw(st.integers(0, 2**31)))
    table = rng.standard_normal((n, n_classes))
    for column in range(n_classes):
        kind = draw(
            st.sampled_from(["plain", "constant", "two", "copy", "one out", "scaled", "zero"])
        )
        if kind == "constant":
            table[:, column] = table[0, column]
        elif kind == "two":
            table[:, column] = np.sign(table[:, column])
        elif kind == "copy":
            table[:, column] = table[:, 0]
        elif kind == "one out":
            table[:, column] = 0
            table[0, column] = 5
        elif kind == "scaled":
            table[:, column] *= draw(st.sampled_from([1e-30, 1e-8, 1e4, LARGEST / 10]))
        elif kind == "zero":
            table[:, column] = 0
    return torch.from_numpy(table).float()


def finite(*tensors: Tensor) -> bool:
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


class TestMixturesAndThresholds:
    @few
    @given(score_tables())
    def test_finite_and_in_range(self, scores: Tensor) -> None:
        mixture = fit_mixture(scores)
        assert finite(mixture.low, mixture.high, mixture.deviation, mixture.share, mixture.gain)
        assert (mixture.low <= mixture.high).all()
        assert ((mixture.share > 0) & (mixture.share < 1)).all()
        cuts = estimate_thresholds(scores)
        assert finite(cuts.thresholds, cuts.prevalence)
        assert 0 < cuts.slope < float("inf")
        assert ((cuts.prevalence >= 0) & (cuts.prevalence <= 1)).all()
        made = torch.sigmoid(cuts.slope * (scores - cuts.thresholds))
        assert ((made >= 0) & (made <= 1)).all()

    @few
    @given(st.integers(0, 1000), st.integers(1, 60), st.data())
    def test_classes_in_another_order(self, seed: int, n: int, data: st.DataObject) -> None:
        scores = _scores(seed, n, 5)
        order = torch.tensor(data.draw(st.permutations(range(5))))
        one, other = estimate_thresholds(scores), estimate_thresholds(scores[:, order])
        found, expected = other.thresholds, one.thresholds[order]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert one.slope == pytest.approx(other.slope, rel=1e-4)

    @few
    @given(score_tables(least=2), st.integers(0, 5))
    def test_scores_rise_with_evidence(self, scores: Tensor, column: int) -> None:
        cuts = estimate_thresholds(scores)
        column %= scores.shape[1]
        sorted_scores = scores[:, column].sort().values
        made = torch.sigmoid(cuts.slope * (sorted_scores - cuts.thresholds[column]))
        assert (made.diff() >= 0).all()


class TestWeights:
    @few
    @given(st.data())
    def test_a_share_of_one_for_every_class(self, data: st.DataObject) -> None:
        text = data.draw(score_tables())
        rng = np.random.RandomState(data.draw(st.integers(0, 1000)))
        kind = data.draw(st.sampled_from(["noise", "same", "constant"]))
        other = {
            "noise": torch.from_numpy(rng.standard_normal(text.shape)).float(),
            "same": text.clone(),
            "constant": torch.zeros_like(text),
        }[kind]
        for tables in ((text, other, other), (other, text, other), (other, other, text)):
            weights = weigh(*tables)
            _check(weights)
            if (
                text.shape[1] > 1
            ):  # with one class there is nothing to learn from, and no whole branch
                _check(with_whole(weights, tables[0], tables[1]))

    @few
    @given(st.integers(0, 1000), st.integers(4, 60), st.data())
    def test_classes_in_another_order(self, seed: int, n: int, data: st.DataObject) -> None:
        text, crossfit, cls = (_scores(seed + i, n, 5) for i in range(3))
        order = torch.tensor(data.draw(st.permutations(range(5))))
        one = weigh(text, crossfit, cls)
        other = weigh(text[:, order], crossfit[:, order], cls[:, order])
        for name, value in vars(one).items():
            torch.testing.assert_close(value[order], vars(other)[name], rtol=1e-3, atol=1e-4)


def fuse(weights: BranchWeights, branches: Sequence[Tensor]) -> Tensor:
    text, learned, cls, whole = branches
    return weights.by_text(text, cls) + weights.by_learned(learned, whole)


class TestFusion:
    """Weights are shares: more evidence never lowers a score, and the sum lies between its branches."""

    @few
    @given(st.data())
    def test_monotone_and_between_its_branches(self, data: st.DataObject) -> None:
        n, n_classes = data.draw(st.integers(4, 20)), data.draw(st.integers(2, 5))
        rng = np.random.RandomState(data.draw(st.integers(0, 1000)))
        branches = [
            torch.from_numpy(rng.standard_normal((n, n_classes)) * 10.0**power).float()
            for power in rng.randint(-8, 8, 4)
        ]
        weights = with_whole(weigh(*branches[:3]), branches[0], branches[3])
        fused = fuse(weights, branches)
        stacked = torch.stack(branches)
        slack = 1e-5 * stacked.abs().amax(0)
        assert (fused <= stacked.amax(0) + slack).all()
        assert (fused >= stacked.amin(0) - slack).all()
        more = [*branches]
        which = data.draw(st.integers(0, 3))
        more[which] = more[which] + torch.from_numpy(rng.rand(n, n_classes)).float()
        assert (fuse(weights, more) >= fused).all()

    @few
    @given(st.lists(st.floats(-(2.0**127), 0, width=32), min_size=2, max_size=50))
    def test_log_odds_of_any_log_probability(self, values: list[float]) -> None:
        logs = torch.tensor(sorted(values), dtype=torch.float32)
        found = paa.log_odds(logs)
        assert finite(found)
        assert (found.diff() >= 0).all()

    @few
    @given(st.integers(0, 1000), st.floats(1e-6, 1e6), st.floats(0, 1))
    def test_the_published_form(self, seed: int, scale: float, alpha: float) -> None:
        rng = np.random.RandomState(seed)
        patches, cls, text = (
            normalize(torch.from_numpy(rng.standard_normal(shape)).float(), dim=-1)
            for shape in ((3, 5, 8), (3, 8), (4, 8))
        )
        weight = torch.from_numpy(rng.standard_normal((8, 4)) * scale).float()
        config = replace(Config.paper(), alpha=alpha)
        classifier = gda.Classifier(weight, torch.zeros(4))
        found = paa.aggregate(patches, cls, text, classifier, config)
        for scores in (found.patch, found.cls, found.fused):
            assert ((scores >= 0) & (scores <= 1)).all()  # NaN is neither
        low, high = torch.minimum(found.patch, found.cls), torch.maximum(found.patch, found.cls)
        assert ((found.fused >= low - 1e-6) & (found.fused <= high + 1e-6)).all()


def _check(weights: BranchWeights) -> None:
    for value in vars(weights).values():
        assert ((value >= -1e-6) & (value <= 1 + 1e-6)).all(), weights
    total = weights.text + weights.learned + weights.cls + weights.whole
    torch.testing.assert_close(total, torch.ones_like(total))


class TestWhole:
    @few
    @given(score_tables(least=2), st.integers(0, 1000), st.booleans())
    def test_finite(self, teacher: Tensor, seed: int, identical: bool) -> None:
        rng = np.random.RandomState(seed)
        cls = normalize(torch.from_numpy(rng.standard_normal((len(teacher), 8))).float(), dim=1)
        if identical:
            cls = cls[:1].expand(len(teacher), -1)
        holds = taught(teacher)
        assert ((holds >= 0) & (holds <= 1)).all()
        classifier = learn_whole(cls, holds, teacher)
        assert finite(classifier.weight, classifier.bias)
        assert finite(classifier.scores(cls))


class TestDiscriminant:
    @staticmethod
    def case(seed: int, n: int, n_classes: int = 4, dim: int = 6) -> tuple[Tensor, Tensor, Tensor]:
        rng = np.random.RandomState(seed)
        vectors, text = (
            normalize(torch.from_numpy(rng.standard_normal((count, dim))).float(), dim=1)
            for count in (n, n_classes)
        )
        return vectors, torch.from_numpy(rng.randint(0, n_classes, n)), text

    @staticmethod
    def fit(
        vectors: Tensor, label: Tensor, text: Tensor, covariance: Covariance = "population"
    ) -> gda.Classifier:
        return gda.fit(vectors, label, text, covariance=covariance, shrinkage=1.0, log_prior=False)

    @few
    @given(
        st.integers(0, 1000),
        st.integers(0, 40),
        st.sampled_from(["population", "sample"]),
        st.data(),
    )
    def test_order_and_names_do_not_matter(
        self, seed: int, n: int, covariance: Covariance, data: st.DataObject
    ) -> None:
        vectors, label, text = self.case(seed, n)
        plain = self.fit(vectors, label, text, covariance)
        rows = torch.tensor(data.draw(st.permutations(range(n))), dtype=torch.int64)
        shuffled = self.fit(vectors[rows], label[rows], text, covariance)
        classes = torch.tensor(data.draw(st.permutations(range(4))))
        renamed = self.fit(vectors, classes.argsort()[label], text[classes], covariance)
        for other, weight, bias in (
            (shuffled, plain.weight, plain.bias),
            (renamed, plain.weight[:, classes], plain.bias[classes]),
        ):
            torch.testing.assert_close(other.weight, weight, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(other.bias, bias, rtol=1e-4, atol=1e-5)

    @few
    @given(st.integers(0, 1000), st.integers(1, 40))
    def test_turning_the_space_changes_no_score(self, seed: int, n: int) -> None:
        """Rotations only: shrinkage towards a multiple of the identity is not affine invariant."""
        vectors, label, text = self.case(seed, n)
        random = torch.from_numpy(np.random.RandomState(seed).standard_normal((6, 6)))
        turn = torch.linalg.qr(random).Q.float()
        plain, turned = self.fit(vectors, label, text), self.fit(vectors @ turn, label, text @ turn)
        one, other = plain.scores(vectors), turned.scores(vectors @ turn)
        torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-3)

    @few
    @given(st.integers(0, 1000), st.sampled_from([0.0, 1.0]))
    def test_affine_maps_change_no_odds(self, seed: int, shrinkage: float) -> None:
        """Scores of a vector all shift alike, which no softmax feels: under turning, stretching evenly and
        shifting; and without shrinkage, which measures length, under every invertible affine map."""
        vectors, label, text = self.case(seed, 60)
        rng = np.random.RandomState(seed)
        turn, other = (np.linalg.qr(rng.standard_normal((6, 6)))[0] for _ in range(2))
        stretch = 2.5 * np.eye(6) if shrinkage else np.diag(rng.uniform(0.5, 2, 6))
        matrix = torch.from_numpy(turn @ stretch @ other).float()
        shift = torch.from_numpy(rng.standard_normal(6)).float()

        def odds(rows: Tensor, words: Tensor) -> Tensor:
            found = gda.fit(
                rows, label, words, covariance="population", shrinkage=shrinkage, log_prior=False
            ).scores(rows)
            return found - found.mean(dim=1, keepdim=True)

        plain = odds(vectors, text)
        mapped = odds(vectors @ matrix + shift, text @ matrix + shift)
        torch.testing.assert_close(mapped, plain, rtol=1e-3, atol=1e-3)

    @few
    @given(st.integers(0, 1000), st.integers(1, 5), st.sampled_from(["population", "sample"]))
    def test_degenerate_covariance(self, seed: int, rank: int, covariance: Covariance) -> None:
        vectors, label, text = self.case(seed, 20)
        vectors[:, rank:] = 0
        flat = normalize(vectors, dim=1)
        classifier = self.fit(flat, label, text, covariance)
        assert finite(classifier.weight, classifier.bias)
        assert finite(classifier.scores(text))

    @pytest.mark.parametrize("covariance", ["population", "sample"])
    def test_a_million_equal_patches(self, covariance: Covariance) -> None:
        """No spread, so the nearest mean decides; rounding of a million sums must not pass for one."""
        vectors, _, text = self.case(0, 1)
        many = vectors.expand(1_000_000, -1)
        classifier = self.fit(many, torch.zeros(1_000_000, dtype=torch.int64), text, covariance)
        torch.testing.assert_close(classifier.weight[:, 0], vectors[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(classifier.weight[:, 1:], text[1:].T, rtol=1e-5, atol=1e-6)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


class TestDeterminism:
    """To 1e-4 of a score in [0, 1], whatever the number of threads and the size of batches."""

    def scores(self, n_threads: int, batch: int, config: Config | None) -> Tensor:
        torch.set_num_threads(n_threads)
        world = patch_world(5, 60, 9, 16, 5)
        recognizer = recognizer_of(world, config)
        recognizer.fit(
            [features_of(world, list(range(i, min(i + batch, 60)))) for i in range(0, 60, batch)]
        )
        found = [
            torch.as_tensor(one.scores)
            for i in range(0, 60, batch)
            for one in recognizer.predict(features_of(world, list(range(i, min(i + batch, 60)))))
        ]
        return torch.stack(found)

    @pytest.mark.parametrize("config", [None, Config.reference("voc")], ids=["auto", "reference"])
    def test_threads_and_batches(self, config: Config | None, threads: None) -> None:
        first = self.scores(1, 60, config)
        for n_threads, batch in ((2, 60), (4, 7)):
            again = self.scores(n_threads, batch, config)
            torch.testing.assert_close(again, first, rtol=0, atol=1e-4)

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
    @pytest.mark.parametrize("identical", [False, True])
    def test_few_images(self, n: int, identical: bool) -> None:
        world = patch_world(n, 8, 4, 16, 3)
        recognizer = recognizer_of(world)
        features = features_of(world, [0] * n if identical else list(range(n)))
        recognizer.fit(features)
        for prediction in recognizer.predict(features_of(world)):
            scores = torch.as_tensor(prediction.scores)
            assert ((scores >= 0) & (scores <= 1)).all()


def _scores(seed: int, n: int, n_classes: int) -> Tensor:
    """Two lumps in each column."""
    rng = np.random.RandomState(seed)
    holds = rng.rand(n, n_classes) < 0.3
    return torch.from_numpy(rng.standard_normal((n, n_classes)) + 3 * holds).float()
