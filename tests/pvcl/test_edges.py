"""What mutants of the code showed to be untested."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import plain_pvcl
import pytest
import torch

from piaa import Config
from piaa.errors import InputError
from piaa.pvcl import Bank, gda, learn, match_scale, merge
from piaa.pvcl import bank as bank_module
from piaa.pvcl import scale as scale_module
from worlds import patch_world


@pytest.mark.parametrize("means", ["plain", "probability"])
def test_means_weighted_by_the_text_probability(means: str) -> None:
    """Without stage II, which would put weights of its own in their place."""
    world = patch_world(8, 40, 16, 12, 5, text_strength=0.4, patch_noise=0.9)
    config = replace(
        Config.paper(),
        bank_size=40,
        text_scale=8.0,
        bank_means=means,
        purify="none",
        purify_scale=None,
    )
    found = learn([world.patches], world.text, config)
    weight, bias = plain_pvcl.learn(world.patches, world.text, config)
    np.testing.assert_allclose(found.weight, weight, rtol=2e-5, atol=1e-5 * abs(weight).max())
    np.testing.assert_allclose(found.bias, bias, rtol=2e-5)


@pytest.mark.parametrize("scale", [None, 0.5, 30.0])
@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_few_classes(n_classes: int, scale: float | None) -> None:
    world = patch_world(4, 30, 9, 16, 4)
    text = world.text[:n_classes]
    bank = Bank(text, size=7, text_scale=scale)
    bank.update(world.patches, torch.arange(30))
    expected = plain_pvcl.banks(world.patches, text, list(range(30)), size=7, scale=scale)
    members = bank.members()
    for c, rows in enumerate(expected):
        mine = members.label == c
        if n_classes > 1:
            assert members.image[mine].tolist() == [image for _, image, _, _ in rows]
            assert members.cell[mine].tolist() == [cell for _, _, cell, _ in rows]
        else:  # one prototype is not centered, and every entropy is 0
            assert mine.sum() == 7


@pytest.mark.parametrize("scale", [None, 20.0])
def test_batches_larger_than_what_is_looked_at_together(
    scale: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = patch_world(5, 60, 25, 16, 4)
    banks = [Bank(world.text, size=9, text_scale=scale) for _ in range(2)]
    for start in (0, 30):
        ids = torch.arange(start, start + 30)
        banks[0].update(world.patches[start : start + 30], ids)
    monkeypatch.setattr(bank_module, "_ROWS_AT_ONCE", 64)
    for start in (0, 30):
        ids = torch.arange(start, start + 30)
        banks[1].update(world.patches[start : start + 30], ids)
        banks[1].members()
    for name, value in banks[0].state().items():
        assert torch.equal(value.nan_to_num(), banks[1].state()[name].nan_to_num()), name


def test_errors_name_their_argument() -> None:
    world = patch_world(2, 4, 4, 8, 3)
    with pytest.raises(InputError, match=r"^text must"):
        Bank(2 * world.text, size=3)
    with pytest.raises(InputError, match=r"^patches must"):
        Bank(world.text, size=3).update(2 * world.patches, torch.arange(4))
    for scale in (0.0, -1.0, torch.inf, torch.nan):
        with pytest.raises(InputError, match="text_scale must be a positive finite number"):
            Bank(world.text, size=3, text_scale=scale)


def test_a_successor_keeps_what_can_matter_and_no_more() -> None:
    world = patch_world(6, 200, 25, 16, 4)
    first = Bank(world.text, size=20)
    first.update(world.patches[:150], torch.arange(150))
    later, alone = first.successor(), Bank(world.text, size=20)
    for bank in (later, alone):
        bank.update(world.patches[150:], torch.arange(150, 200))
    assert len(later.members().label) < len(alone.members().label) // 2
    for name, value in merge(first, later).state().items():
        assert torch.equal(value.nan_to_num(), merge(first, alone).state()[name].nan_to_num()), name


@pytest.mark.parametrize("n", [2, 3, 40])
@pytest.mark.parametrize("covariance", ["population", "sample"])
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_discriminant_of_weighted_vectors(n: int, covariance: str, spread: float) -> None:
    """Far from their weighted means, or so near that their spread is close to what float32 resolves."""
    rng = np.random.RandomState(n)
    centers = rng.standard_normal((2, 5))
    label = np.arange(n) % 2 if n > 3 else np.zeros(n, int)
    vectors = torch.from_numpy(centers[label] + spread * rng.standard_normal((n, 5))).float()
    weights = torch.from_numpy(rng.uniform(0.01, 1, n)).float()
    config = replace(Config(), covariance=covariance, shrinkage=0.5)
    rows, shares = vectors.double().numpy(), weights.double().numpy()
    groups = [[(rows[i], shares[i]) for i in np.flatnonzero(label == c)] for c in range(2)]
    text = torch.from_numpy(centers).float()
    weight, bias = plain_pvcl.gda(groups, text.double().numpy(), config)
    found = gda.fit(
        vectors,
        torch.from_numpy(label),
        text,
        weights=weights,
        covariance=covariance,
        shrinkage=0.5,
        log_prior=False,
    )
    np.testing.assert_allclose(found.weight, weight, rtol=2e-3, atol=2e-3 * abs(weight).max())
    np.testing.assert_allclose(found.bias, bias, rtol=2e-3)


class TestMatchScale:
    def test_one_row_is_a_row(self) -> None:
        logits = torch.tensor([1.0, 0.0, 0.5])
        assert match_scale(logits) == match_scale(logits[None])

    @pytest.mark.parametrize("size", [1e-5, 1e-2, 1e3, 1e5, 1e9, 1e12])
    def test_logits_of_any_size(self, size: float) -> None:
        logits = torch.tensor([[1.0, 0.0, 0.25], [0.0, 0.5, 1.0]])
        assert match_scale(size * logits) * size == pytest.approx(match_scale(logits), rel=1e-4)

    def test_a_class_that_is_there_twice(self) -> None:
        """No scale tells the two apart: half of the way from log 2 to log 3."""
        logits = torch.tensor([[1.0, 1.0, 0.0], [0.5, 0.5, 0.0]])
        scale = match_scale(logits, entropy=0.5)
        p = (logits.double() * scale).softmax(1)
        mean = float(-(p * p.log()).sum(1).mean())
        assert mean == pytest.approx(0.5 * (math.log(2) + math.log(3)), rel=1e-5)
        rounded = logits.clone()
        rounded[0, 1] -= 2.0**-24
        assert match_scale(rounded, entropy=0.5) == pytest.approx(scale, rel=1e-5)

    def test_what_all_classes_share_does_not_count(self) -> None:
        logits = torch.tensor([[1.0, 0.0, 0.25], [0.0, 0.5, 1.0]])
        assert match_scale(logits + 2.0**16) == pytest.approx(match_scale(logits), rel=1e-5)

    @pytest.mark.parametrize("n_classes", [2, 20])
    @pytest.mark.parametrize("size", [1e-3, 1.0, 40.0])
    @pytest.mark.parametrize("fraction", [0.05, 0.6, 0.8, 0.99])
    def test_in_few_passes(
        self, n_classes: int, size: float, fraction: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        random = torch.Generator().manual_seed(3)
        logits = size * torch.randn(300, n_classes, generator=random)
        passes: list[float] = []

        def counted(rows: torch.Tensor, scale: float) -> tuple[float, float]:
            passes.append(scale)
            return entropy(rows, scale)

        entropy = scale_module._entropy
        monkeypatch.setattr(scale_module, "_entropy", counted)
        monkeypatch.setattr(scale_module, "_NUMBERS_AT_ONCE", 1000)  # some stretches of rows
        scale = match_scale(logits, entropy=fraction)
        assert len(passes) <= 13
        assert scale == pytest.approx(self.by_bisection(logits, fraction), rel=3e-6)

    @pytest.mark.parametrize("fraction", [0.3, 0.49, 0.51, 0.7])
    def test_rows_of_two_sizes(self, fraction: float) -> None:
        """Between the two the entropy does not fall, and a step by its slope goes far beyond the mark."""
        logits = torch.randn(300, 20, generator=torch.Generator().manual_seed(3))
        logits[::2] *= 1e4
        scale = match_scale(logits, entropy=fraction)
        assert scale == pytest.approx(self.by_bisection(logits, fraction), rel=1e-5)

    @pytest.mark.parametrize("fraction", [0.1, 0.3, 0.5, 0.7])
    @pytest.mark.parametrize("size", [0.1, 3.0, 30.0])
    def test_an_entropy_that_falls_all_at_once(self, size: float, fraction: float) -> None:
        """One class ahead of a thousand that are equal: a step by the slope leaves the bracket."""
        logits = -size * torch.ones(1, 1000)
        logits[0, 0] = 0
        scale = match_scale(logits, entropy=fraction)
        assert scale == pytest.approx(self.by_bisection(logits, fraction), rel=1e-5)

    def by_bisection(self, logits: torch.Tensor, fraction: float) -> float:
        low, high = 2.0**-20, 2.0**20
        while high / low > 1 + 1e-9:
            middle = math.sqrt(low * high)
            p = (logits.double() * middle).softmax(1)
            above = -torch.xlogy(p, p).sum(1).mean() > fraction * math.log(logits.shape[1])
            low, high = (middle, high) if above else (low, middle)
        return low

    def test_refusals(self) -> None:
        good = torch.tensor([[1.0, 0.0]])
        for entropy in (0.0, 1.0, -0.5, torch.nan):
            with pytest.raises(InputError, match="entropy must lie between 0 and 1"):
                match_scale(good, entropy=entropy)
        for logits in (torch.tensor([[1.0, torch.nan]]), torch.tensor([[torch.inf, 0.0]])):
            with pytest.raises(InputError, match="logits must be finite"):
                match_scale(logits)
        with pytest.raises(InputError, match=r"between 8\.67362e-19 and 1\.04858e\+06"):
            match_scale(torch.zeros(2, 3))


def test_the_last_bit_of_a_number_is_no_spread() -> None:
    text = torch.eye(2, 4)
    vectors = torch.tensor([[0.5, 0.5, 0.5, 0.5]]).repeat(8, 1)
    vectors[::2, 0] = torch.nextafter(torch.tensor(0.5), torch.tensor(1.0))
    label = torch.zeros(8, dtype=torch.int64)
    found = gda.fit(vectors, label, text, covariance="population", shrinkage=1.0, log_prior=False)
    torch.testing.assert_close(found.weight, torch.stack([vectors.mean(0), text[1]], dim=1))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_bank_that_is_looked_at_after_every_image(size: int) -> None:
    """Each look prunes it, and sets the bar that later vectors must pass."""
    world = patch_world(3, 60, 9, 16, 4)
    bank = Bank(world.text, size=size)
    for image in range(60):
        bank.update(world.patches[image : image + 1], torch.tensor([image]))
        members = bank.members()
    expected = plain_pvcl.banks(world.patches, world.text, list(range(60)), size=size, scale=None)
    kept = [(image, cell) for rows in expected for _, image, cell, _ in rows]
    assert list(zip(members.image.tolist(), members.cell.tolist(), strict=True)) == kept


def test_which_of_two_near_copies_stays_is_for_their_content_to_say() -> None:
    """The same ids and cells with vectors that differ in their last bits."""
    world = patch_world(7, 6, 4, 16, 3)
    turned = torch.nextafter(world.patches, torch.ones(16))
    states = []
    for order in ([world.patches, turned], [turned, world.patches], [turned, world.patches] * 2):
        bank = Bank(world.text, size=50, text_scale=1e-6)  # every key is the same to float32
        for patches in order:
            bank.update(patches, torch.arange(6))
        states.append(bank.members())
    for other in states[1:]:
        assert torch.equal(other.vectors, states[0].vectors)
        assert torch.equal(other.image, states[0].image)
    assert len(states[0].label) == 24
