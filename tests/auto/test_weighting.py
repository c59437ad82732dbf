"""The unlabelled statistics behind the branch weights, each against what it is meant to tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from piaa.auto.branch_statistics import agreement, gain, ramp
from piaa.auto.weighting import purified_share, weakness_of, weigh, with_whole
from piaa.mixtures import standardize
from worlds import split_scores as scores


def test_ramp() -> None:
    assert ramp(torch.tensor([0.0, 1.5, 2.0, 9.0]), (1.0, 2.0)).tolist() == [0.0, 0.5, 1.0, 1.0]


def test_agreement_is_the_correlation_of_each_class() -> None:
    first, second = scores(200, 5, seed=0), scores(200, 5, seed=1)
    for column in range(5):
        both = torch.stack([first[:, column], second[:, column]])
        expected = torch.corrcoef(both)[0, 1]
        torch.testing.assert_close(agreement(first, second)[column], expected)


def test_a_constant_column_agrees_with_nothing() -> None:
    assert standardize(torch.ones(9, 2)).eq(0).all()
    assert agreement(torch.ones(9, 2), torch.rand(9, 2)).eq(0).all()


def test_scores_that_split_gain_and_noise_does_not() -> None:
    assert gain(scores(400, 4, seed=2, split=6.0)).min() > 0.4
    assert gain(torch.randn(400, 4, generator=torch.Generator().manual_seed(3))).max() < 0.05


def test_a_useless_global_branch_gets_nothing() -> None:
    text, crossfit = scores(400, 8, seed=4), scores(400, 8, seed=5)
    noise = torch.randn(400, 8, generator=torch.Generator().manual_seed(6))
    assert weigh(text, crossfit, noise).cls.max() < 0.02
    assert weigh(text, crossfit, scores(400, 8, seed=7)).cls.min() > 0.2


def test_a_global_branch_that_bears_the_text_out_is_heard_though_it_hardly_splits() -> None:
    text, cls = scores(400, 8, seed=4, split=30.0), scores(400, 8, seed=7, split=2.5)
    crossfit = scores(400, 8, seed=5)
    assert gain(cls).mean() < 0.05 * gain(text).mean()
    assert agreement(text, cls).mean() > 0.5
    assert weigh(text, crossfit, cls).cls.mean() > 0.1


@pytest.mark.parametrize(("n", "share"), [(8, 0.4988), (50, 0.475), (2000, 0.45)])
def test_few_images_leave_a_global_branch_the_half_that_it_has_before_any(
    n: int, share: float
) -> None:
    text = scores(n, 4, seed=4)
    weights = weigh(text, torch.zeros(n, 4), text + 0.1 * scores(n, 4, seed=5))
    assert weights.cls.tolist() == pytest.approx([share] * 4, abs=1e-4)


def test_from_few_images_a_global_branch_that_agrees_with_no_text_is_not_heard() -> None:
    """Light and dark pictures, say: a split as clear as the text's, that has nothing to do with it."""
    text, crossfit = scores(20, 40, seed=4, split=5.0), scores(20, 40, seed=5)
    dark = torch.rand(20, 40, generator=torch.Generator().manual_seed(6)) < 0.1
    cls = scores(20, 40, seed=7, split=0.0) + 5.0 * dark
    assert gain(cls).mean() > 0.8 * gain(text).mean()
    assert weigh(text, crossfit, cls).cls.max() < 0.1
    # A text that splits nothing may be the one that is wrong: that stays as before any fit.
    noise = scores(20, 40, seed=8, split=0.0)
    assert weigh(noise, crossfit, cls).cls.min() > 0.3


def test_a_learnt_branch_that_confuses_classes_gets_nothing() -> None:
    text, cls = scores(400, 8, seed=8), scores(400, 8, seed=9)
    confused = torch.randn(400, 8, generator=torch.Generator().manual_seed(10))
    assert weigh(text, confused, cls).learned.max() < 0.02


def test_a_ghost_is_not_taken_for_present() -> None:
    """The learnt classifier finds class 7 where it finds class 6, whose text agrees: 7 is absent."""
    text, crossfit, cls = (scores(400, 8, seed=s, split=5.0) for s in (11, 12, 13))
    holds_six = torch.arange(400) % 8 == 6
    for branch in (text, crossfit, cls):
        branch[torch.arange(400) % 8 == 7] = branch[torch.arange(400) % 8 == 0]
        branch[:, 7] = torch.randn(400, generator=torch.Generator().manual_seed(14))
    crossfit[:, 7] = crossfit[:, 6] + 0.1 * crossfit[:, 7]
    text[:, 7] = torch.where(holds_six, text[:, 7] + 1, text[:, 7])
    weights = weigh(text, crossfit, cls)
    assert weights.presence[7] < 0.4
    assert weights.presence[:7].min() > 0.9
    assert weights.learned[7] == 0
    assert weights.learned[:7].min() > 0.1


def test_the_whole_image_classifier_gets_room_as_far_as_it_agrees() -> None:
    text, crossfit, cls = (scores(400, 8, seed=s) for s in (15, 16, 17))
    weights = weigh(text, crossfit, cls)
    others = weights.by_patches(text, crossfit)
    agreeing = with_whole(weights, others, others + 0.5 * scores(400, 8, seed=18, split=0))
    useless = with_whole(weights, others, scores(400, 8, seed=19, split=0))
    assert agreeing.whole.min() > 0.2 > 0.02 > useless.whole.max()
    for made in (agreeing, useless):
        total = made.text + made.learned + made.cls + made.whole
        torch.testing.assert_close(total, torch.ones(8))


@pytest.mark.parametrize(("plain", "purified", "share"), [(2.0, 5.0, 0.5), (5.0, 2.0, 0.0)])
def test_purification_is_mixed_in_where_it_splits_better(
    plain: float, purified: float, share: float
) -> None:
    first, second = scores(300, 6, seed=20, split=plain), scores(300, 6, seed=21, split=purified)
    assert purified_share(first, second, weak=0.0) == share
    assert purified_share(first, second, weak=1.0) == 2 * share


def test_a_text_is_weak_where_what_was_learnt_splits_several_times_as_well() -> None:
    clear, blurred = scores(300, 6, seed=20, split=6.0), scores(300, 6, seed=21, split=2.0)
    assert weakness_of(blurred, clear) == 1
    assert weakness_of(clear, clear) == 0
    assert weakness_of(clear, blurred) == 0


def test_a_class_that_its_text_splits_better_is_left_to_the_text() -> None:
    """X finds class 7, and the global vector bears it out, but in X it stands out less than in T."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=5.0) for seed in (37, 38, 39))
    before = weigh(text, crossfit, cls)
    assert before.learned.min() > 0.2
    crossfit[:, 7] -= 1.0 * (torch.arange(400) % 8 == 7)
    blurred = weigh(text, crossfit, cls)
    assert 0.5 < gain(crossfit)[7] / gain(text)[7] < 0.8
    assert blurred.learned[7] == 0
    assert blurred.presence[7] > 0.9
    assert blurred.text[7] > before.text[7]
    assert blurred.learned[:7].min() > 0.15


def test_what_was_found_in_few_images_counts_little() -> None:
    """The same splits, with 5, 16 and 50 images of each class."""
    learned, whole = [], []
    for n in (40, 128, 400):
        text, crossfit, cls = (scores(n, 8, seed=seed, split=6.0) for seed in (40, 41, 42))
        weights = weigh(text, crossfit, cls)
        others = weights.by_patches(text, crossfit)
        learned.append(float(weights.learned.max()))
        whole.append(float(with_whole(weights, others, others).whole.median()))
    assert 0 < learned[0] < 0.06 < learned[1] < 0.3 < 0.4 < learned[2]
    full = 0.45 / (1 + 0.35**2)  # of the share, at a correlation of 1
    for images, share in zip((5, 16, 50), whole, strict=True):
        evidence = images**2 / (images**2 + 16**2)
        assert share == pytest.approx(full * min(1, evidence / 0.7), abs=0.01)


def test_what_varies_out_of_proportion_is_not_learnt_beside_a_good_text() -> None:
    """X of class 3 is what it was, times 1.5 and times 3: how alike scores are does not change by that."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=6.0) for seed in (50, 51, 52))
    usual = weigh(text, crossfit, cls)
    for times, kept in ((1.5, 1.0), (2.1, 0.5), (3.0, 0.0)):
        louder = crossfit.clone()
        louder[:, 3] *= times * text[:, 3].std() / crossfit[:, 3].std()
        weights = weigh(text, louder, cls)
        for before, after in (
            (usual.evidence, weights.evidence),
            (usual.learned, weights.learned),
        ):
            assert float(after[3] / before[3]) == pytest.approx(kept, abs=0.02)
            torch.testing.assert_close(after[4:], before[4:])


def test_beside_a_weak_text_it_is_learnt_all_the_same() -> None:
    text, crossfit, cls = (
        scores(400, 8, seed=seed, split=s) for seed, s in ((53, 2.0), (54, 9.0), (55, 2.0))
    )
    assert weakness_of(text, crossfit) == 1
    assert float((crossfit.std(0) / text.std(0)).min()) > 2
    assert weigh(text, crossfit, cls).evidence.min() > 0.8


def test_the_whole_image_classifier_was_taught_little_of_a_class_that_is_hardly_found() -> None:
    text, crossfit, cls = (scores(400, 8, seed=seed) for seed in (56, 57, 58))
    weights = weigh(text, crossfit, cls)
    others = weights.by_patches(text, crossfit)
    surely = replace(weights, evidence=torch.ones(8))
    full = with_whole(surely, others, others).whole
    for evidence, kept in ((0.8, 1.0), (0.7, 1.0), (0.35, 0.5), (0.0, 0.0)):
        less = replace(surely, evidence=torch.full((8,), evidence))
        assert torch.allclose(with_whole(less, others, others).whole, kept * full, atol=1e-6)


def test_the_whole_image_classifier_is_not_asked_for_a_class_that_may_be_one_of_several_groups() -> (
    None
):
    text, crossfit, cls = (scores(400, 8, seed=seed) for seed in (56, 57, 58))
    weights = replace(weigh(text, crossfit, cls), evidence=torch.ones(8))
    others = weights.by_patches(text, crossfit)
    full = with_whole(weights, others, others)
    doubt = torch.tensor([0.0, 0.05, 0.1, 0.2, 0.5, 0.0, 0.0, 0.0])
    less = with_whole(weights, others, others, doubt)
    kept = torch.tensor([1.0, 0.75, 0.5, 0.0, 0.0, 1.0, 1.0, 1.0])
    assert torch.allclose(less.whole, kept * full.whole, atol=1e-6)
    total = less.text + less.learned + less.cls + less.whole
    torch.testing.assert_close(total, torch.ones(8))


def test_a_weak_text_leaves_what_is_split_to_what_was_learnt() -> None:
    """X splits half as clearly as would be asked of it beside a text that splits as well."""
    crossfit = scores(400, 8, seed=26, split=7.0)
    assert 0.3 < gain(crossfit).min() < gain(crossfit).max() < 0.7
    noise = torch.randn(400, 8, generator=torch.Generator().manual_seed(27))
    beside_weak = weigh(scores(400, 8, seed=28, split=2.5), crossfit, noise)
    beside_strong = weigh(scores(400, 8, seed=28, split=7.0), crossfit, noise)
    assert beside_weak.learned.min() > 0.7 > 0.55 > beside_strong.learned.max()
