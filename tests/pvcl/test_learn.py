from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_pvcl
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor
from torch.nn.functional import normalize

from piaa.config import Config
from piaa.errors import InputError
from piaa.pvcl import Bank, gda, learn, match_scale, merge, new_bank, purify, solve
from piaa.pvcl.gda import Classifier
from worlds import World, patch_world

RECORD = np.load(Path(__file__).parents[1] / "data" / "pvcl_seed3.npz")


@pytest.fixture(scope="module")
def recorded_world() -> World:
    return patch_world(3, 300, 49, 32, 7)


@pytest.mark.parametrize(("multiplier", "tag"), [(100.0, "100"), (0.01, "0p01")])
def test_equals_the_published_learning_script(
    recorded_world: World, multiplier: float, tag: str
) -> None:
    config = replace(Config.reference("voc"), bank_size=64, purify_scale=multiplier)
    classifier = learn(recorded_world.patches.split(37), recorded_world.text, config)
    for mine, theirs in (
        (classifier.weight, torch.from_numpy(RECORD[f"W_{tag}"])),
        (classifier.bias, torch.from_numpy(RECORD[f"b_{tag}"])),
    ):
        # Measured 7e-7; 1e-5 leaves room for other BLAS builds.
        assert (mine - theirs).abs().max() <= 1e-5 * theirs.abs().max()


CONFIGS = {
    "paper": replace(Config.paper(), bank_size=40, text_scale=20.0, purify_scale=0.2),
    "reference": replace(Config.reference("voc"), bank_size=40, text_scale=20.0, purify_scale=0.05),
    "auto": Config.auto(),
    "auto, small": Config(bank_size=30, bank_fraction=0.02, bank_floor=5),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_equals_the_formulas_written_out(name: str) -> None:
    world = patch_world(8, 60, 25, 12, 5, text_strength=0.4, patch_noise=0.9)
    config = CONFIGS[name]
    classifier = learn(world.patches.split(7), world.text, config)
    weight, bias = plain_pvcl.learn(world.patches, world.text, config)
    np.testing.assert_allclose(classifier.weight, weight, rtol=2e-5, atol=1e-5 * abs(weight).max())
    np.testing.assert_allclose(classifier.bias, bias, rtol=2e-5)


def test_merged_banks_give_the_classifier_of_one_pass() -> None:
    world = patch_world(8, 60, 25, 12, 5)
    config = Config.reference("coco")
    banks = []
    for part in torch.arange(60).split(20):
        banks.append(new_bank(world.text, config))
        banks[-1].update(world.patches[part], part)
    merged, _ = solve(merge(banks[2], merge(banks[0], banks[1])), config)
    once = learn(world.patches.split(60), world.text, config)
    assert torch.equal(merged.weight, once.weight)
    assert torch.equal(merged.bias, once.bias)


def test_directions_are_those_of_shrunk_discriminant_analysis() -> None:
    """Up to the factor d / n, shrinkage r is scikit-learn's with s / (1 - s) = r d / n here."""
    random = np.random.RandomState(0)
    label = np.repeat(np.arange(3), 50)
    x = random.standard_normal((3, 6))[label] + random.standard_normal((150, 6))
    mine = gda.fit(
        torch.from_numpy(x).float(),
        torch.from_numpy(label),
        torch.eye(3, 6),
        covariance="population",
        shrinkage=10.0,
        log_prior=False,
    )
    ratio = 10.0 * 6 / (150 - 1)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=ratio / (1 + ratio))
    lda.fit(x, label)
    weight = mine.weight.numpy() / np.linalg.norm(mine.weight)
    np.testing.assert_allclose(weight, lda.coef_.T / np.linalg.norm(lda.coef_), atol=1e-5)


def fit(vectors: Tensor, label: Tensor, text: Tensor) -> Classifier:
    return gda.fit(vectors, label, text, covariance="sample", shrinkage=1.0, log_prior=False)


def test_a_class_without_vectors_takes_its_text_prototype() -> None:
    world = patch_world(8, 60, 25, 12, 5)
    vectors = world.patches.reshape(-1, 12)[:40]
    label = torch.arange(40) % 3
    with_text = fit(vectors, label, world.text)
    # The prototype enters as a mean and not into the covariance.
    other = fit(vectors, label, torch.cat([world.text[:3], world.text[[4, 3]]]))
    torch.testing.assert_close(with_text.weight[:, [4, 3]], other.weight[:, 3:])
    torch.testing.assert_close(with_text.weight[:, :3], other.weight[:, :3])


@pytest.mark.parametrize("covariance", ["sample", "population"])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_without_spread_the_nearest_mean_decides(covariance: str, n: int) -> None:
    text, vectors = torch.eye(3, 5), torch.eye(5)[1:4][:n]
    label = torch.arange(3)[:n]
    got = gda.fit(vectors, label, text, covariance=covariance, shrinkage=1.0, log_prior=False)  # type: ignore[arg-type]
    means = torch.cat([vectors, text[n:]])
    assert torch.equal(got.weight, means.T)
    assert torch.equal(got.bias, torch.full((3,), -0.5))


def test_fewer_vectors_than_dimensions_stay_finite() -> None:
    world = patch_world(8, 2, 3, 64, 3)
    classifier = learn([world.patches], world.text, Config.reference("voc"))
    assert classifier.weight.isfinite().all()
    assert classifier.bias.isfinite().all()


PURE = Classifier(torch.eye(2), torch.zeros(2))


def directions(*angles: float) -> Tensor:
    a = torch.tensor(angles)
    return torch.stack([a.cos(), a.sin()], dim=1)


def test_regrouping_moves_vectors_and_drops_groups_of_one() -> None:
    vectors = directions(0.1, 0.2, 1.5, 0.3, 0.0)  # the third scores highest for class 1
    label = torch.tensor([0, 0, 0, 1, 1])
    pure = purify(vectors, label, PURE, scale=1.0, mode="regroup")
    assert pure.moved.tolist() == [1, 2]
    assert set(pure.label.tolist()) == {0}  # one vector in group 1: its deviation is undefined
    assert pure.kept.tolist() == [4]


def test_own_banks_keep_their_vectors_and_a_bank_of_one() -> None:
    vectors, label = directions(0.1, 0.2, 1.5, 0.3), torch.tensor([0, 0, 0, 1])
    pure = purify(vectors, label, PURE, scale=1.0, mode="own-bank")
    assert pure.moved.tolist() == [0, 0]
    assert pure.label.tolist()[-1] == 1
    assert 2 not in pure.kept.tolist()


def test_a_saturated_softmax_keeps_all_or_nothing() -> None:
    """Published multipliers of 100 and more: q is exactly 1, or one doubtful vector empties all."""
    sure, label = directions(0.1, 0.2, 0.1, 0.05, 0.0), torch.zeros(5, dtype=torch.int64)
    assert len(purify(sure, label, PURE, scale=100.0, mode="regroup").kept) == 5
    doubtful = torch.cat([sure, directions(0.78)])
    label = torch.zeros(6, dtype=torch.int64)
    assert len(purify(doubtful, label, PURE, scale=100.0, mode="regroup").kept) == 0


def test_underflowed_weights_are_not_kept() -> None:
    vectors, label = directions(1.5, 1.4), torch.tensor([0, 0])  # own class: q underflows to 0
    assert len(purify(vectors, label, PURE, scale=1e4, mode="own-bank").kept) == 0


def test_report_accounts_for_every_class() -> None:
    world = patch_world(8, 60, 25, 12, 5, text_strength=0.4, patch_noise=0.9)
    text = torch.cat([world.text, world.text[:1]])  # the sixth class repeats the first
    config = replace(Config.reference("coco"), bank_size=2000)
    bank = new_bank(text, config)
    bank.update(world.patches, torch.arange(60))
    _, report = solve(bank, config)
    assert report.bank.sum() == 60 * 25  # K is larger than the data: every patch is in a bank
    assert report.bank[5] == 0
    assert report.images[5] == 0
    assert (report.images[:5] > 1).all()
    assert (report.images <= report.bank).all()
    assert 0 < int(report.kept.sum()) < int(report.bank.sum())
    assert torch.equal(report.text_fallback, report.kept == 0)
    assert report.moved.sum() > 0


def test_an_empty_bank_is_zero_shot() -> None:
    text = torch.eye(3, 8)
    classifier, report = solve(new_bank(text, Config.auto()), Config.auto())
    assert torch.equal(classifier.weight, text.T)
    assert report.text_fallback.all()


def test_one_class_learns() -> None:
    world = patch_world(8, 10, 9, 12, 3)
    for config in (Config.auto(), Config.paper(), Config.reference("nus")):
        classifier = learn([world.patches], world.text[:1], config)
        assert classifier.weight.shape == (12, 1)
        assert classifier.weight.isfinite().all()


def test_bad_input_to_learn() -> None:
    text = torch.eye(3)
    with pytest.raises(InputError, match="batches is empty"):
        learn([], text, Config.auto())
    with pytest.raises(InputError, match="torch tensor"):
        learn([[1.0]], text, Config.auto())  # type: ignore[list-item]
    with pytest.raises(InputError, match="3 axes"):
        learn([torch.tensor(1.0)], text, Config.auto())
    for size, scale in ((512, None), (1024, 60.0)):  # either is reason enough
        with pytest.raises(InputError, match="text_scale=None and a size of 1024"):
            solve(Bank(text, size=size, text_scale=scale), Config.auto())


def test_matched_scale_gives_the_entropy_asked_for() -> None:
    logits = torch.randn(500, 20, generator=torch.Generator().manual_seed(0))
    for fraction in (0.3, 0.8):
        p = (match_scale(logits, entropy=fraction) * logits).softmax(dim=1)
        entropy = -(p * p.log()).sum(dim=1).mean()
        assert entropy == pytest.approx(fraction * np.log(20), rel=1e-4)


def test_scales_that_cannot_be_matched() -> None:
    assert match_scale(torch.randn(4, 1)) == 1.0
    with pytest.raises(InputError, match="nearly"):
        match_scale(torch.ones(4, 3))
    with pytest.raises(InputError, match="between 0 and 1"):
        match_scale(torch.ones(4, 3), entropy=1.0)
    with pytest.raises(InputError, match="finite"):
        match_scale(torch.full((4, 3), torch.nan))
    with pytest.raises(InputError, match="at least one row"):
        match_scale(normalize(torch.ones(0, 3), dim=-1))
