"""The unlabelled statistics behind the branch weights, each against what it is meant to tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from piaa.branch_statistics import agreement, found, gain, ramp
from piaa.mixtures import standardize
from piaa.presence import nearest_twin
from piaa.weighting import TextStrength, purified_share, weigh, with_whole


def scores(n: int, n_classes: int, *, seed: int, split: float = 4.0) -> torch.Tensor:
    """Each image holds one class, whose score stands `split` standard deviations out."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, n_classes, generator=generator)
    holds = torch.nn.functional.one_hot(torch.arange(n) % n_classes, n_classes)
    return noise + split * holds


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
    assert weigh(text, crossfit, noise, torch.ones(8)).cls.max() < 0.02
    assert weigh(text, crossfit, scores(400, 8, seed=7), torch.ones(8)).cls.min() > 0.2


def test_a_global_branch_that_bears_the_text_out_is_heard_though_it_hardly_splits() -> None:
    text, cls = scores(400, 8, seed=4, split=30.0), scores(400, 8, seed=7, split=2.5)
    crossfit = scores(400, 8, seed=5)
    assert gain(cls).mean() < 0.05 * gain(text).mean()
    assert agreement(text, cls).mean() > 0.5
    assert weigh(text, crossfit, cls, torch.ones(8)).cls.mean() > 0.1


@pytest.mark.parametrize(("n", "share"), [(8, 0.4988), (50, 0.475), (2000, 0.45)])
def test_few_images_leave_a_global_branch_the_half_that_it_has_before_any(
    n: int, share: float
) -> None:
    text = scores(n, 4, seed=4)
    weights = weigh(text, torch.zeros(n, 4), text + 0.1 * scores(n, 4, seed=5), torch.ones(4))
    assert weights.cls.tolist() == pytest.approx([share] * 4, abs=1e-4)


def test_from_few_images_a_global_branch_that_agrees_with_no_text_is_not_heard() -> None:
    """Light and dark pictures, say: a split as clear as the text's, that has nothing to do with it."""
    text, crossfit = scores(20, 40, seed=4, split=5.0), scores(20, 40, seed=5)
    dark = torch.rand(20, 40, generator=torch.Generator().manual_seed(6)) < 0.1
    cls = scores(20, 40, seed=7, split=0.0) + 5.0 * dark
    assert gain(cls).mean() > 0.8 * gain(text).mean()
    assert weigh(text, crossfit, cls, torch.ones(40)).cls.max() < 0.1
    # A text that splits nothing may be the one that is wrong: that stays as before any fit.
    noise = scores(20, 40, seed=8, split=0.0)
    assert weigh(noise, crossfit, cls, torch.ones(40)).cls.min() > 0.3


def test_a_learnt_branch_that_confuses_classes_gets_nothing() -> None:
    text, cls = scores(400, 8, seed=8), scores(400, 8, seed=9)
    confused = torch.randn(400, 8, generator=torch.Generator().manual_seed(10))
    assert weigh(text, confused, cls, torch.ones(8)).learned.max() < 0.02


def test_a_ghost_is_not_taken_for_present() -> None:
    """The learnt classifier finds class 7 where it finds class 6, whose text agrees: 7 is absent."""
    text, crossfit, cls = (scores(400, 8, seed=s, split=5.0) for s in (11, 12, 13))
    holds_six = torch.arange(400) % 8 == 6
    for branch in (text, crossfit, cls):
        branch[torch.arange(400) % 8 == 7] = branch[torch.arange(400) % 8 == 0]
        branch[:, 7] = torch.randn(400, generator=torch.Generator().manual_seed(14))
    crossfit[:, 7] = crossfit[:, 6] + 0.1 * crossfit[:, 7]
    text[:, 7] = torch.where(holds_six, text[:, 7] + 1, text[:, 7])
    weights = weigh(text, crossfit, cls, torch.ones(8))
    assert weights.presence[7] < 0.4
    assert weights.presence[:7].min() > 0.9
    assert weights.learned[7] == 0
    assert weights.learned[:7].min() > 0.1


def test_the_whole_image_classifier_gets_room_as_far_as_it_agrees() -> None:
    text, crossfit, cls = (scores(400, 8, seed=s) for s in (15, 16, 17))
    weights = weigh(text, crossfit, cls, torch.ones(8))
    others = weights.fuse(text, crossfit, cls, None)
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
    assert TextStrength.of(blurred, clear).weak == 1
    assert TextStrength.of(clear, clear).weak == 0
    assert TextStrength.of(clear, blurred).weak == 0


def test_a_text_knows_a_class_that_it_splits() -> None:
    text = scores(300, 6, seed=20, split=6.0)
    text[:, 2] = torch.randn(300, generator=torch.Generator().manual_seed(36))
    known = TextStrength.of(text, text).known
    assert known.tolist() == [1, 1, 0, 1, 1, 1]


def test_a_class_that_others_always_outdo_is_taken_for_absent() -> None:
    """It is never in the images; its text scores are highest where another class is."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=6.0) for seed in (11, 12, 13))
    for branch, noise in ((text, 14), (crossfit, 15), (cls, 16)):
        generator = torch.Generator().manual_seed(noise)
        branch[:, 7] = 0.6 * branch[:, 0] + torch.randn(400, generator=generator)
    absent = torch.arange(400) % 8 == 7
    weights = weigh(text[~absent], crossfit[~absent], cls[~absent], torch.ones(8))
    assert weights.presence[7] < 0.3
    assert weights.presence[:7].min() > 0.8
    assert weights.learned[7] == 0 < weights.learned[:7].min()


def test_a_class_that_the_text_does_not_know_learns_nothing_under_its_name() -> None:
    """X splits class 7 clearly, beside a weak text, but into images of which its text says nothing."""
    text, crossfit = scores(400, 8, seed=22, split=2.5), scores(400, 8, seed=23, split=8.0)
    cls = torch.randn(400, 8, generator=torch.Generator().manual_seed(24))
    found = weigh(text, crossfit, cls, torch.zeros(8))
    assert found.learned.min() > 0.7
    text[:, 7] = torch.randn(400, generator=torch.Generator().manual_seed(25))
    other = weigh(text, crossfit, cls, torch.zeros(8))
    assert other.learned[7] < 0.1
    assert other.learned[:7].min() > 0.7


def test_a_weak_text_needs_less_of_a_split() -> None:
    """X splits half as clearly as would be asked of it beside a text that splits as well."""
    crossfit = scores(400, 8, seed=26, split=7.0)
    assert 0.3 < gain(crossfit).min() < gain(crossfit).max() < 0.7
    cls = torch.randn(400, 8, generator=torch.Generator().manual_seed(27))
    beside_weak = weigh(scores(400, 8, seed=28, split=2.5), crossfit, cls, torch.zeros(8))
    beside_strong = weigh(scores(400, 8, seed=28, split=7.0), crossfit, cls, torch.zeros(8))
    assert beside_weak.presence.min() > 0.9 > 0.1 > beside_strong.presence.max()


def test_what_is_another_classes_is_not_learnt() -> None:
    """Text and global vector agree on class 7 (bicycle), but X finds class 6 (motorbike) under its name."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=5.0) for seed in (29, 30, 31))
    assert weigh(text, crossfit, cls, torch.ones(8)).presence.min() > 0.9
    crossfit[:, 7] = crossfit[:, 6] + 0.1 * crossfit[:, 7]
    weights = weigh(text, crossfit, cls, torch.ones(8))
    assert weights.presence[7] == 0
    assert weights.presence[:7].min() > 0.9


def test_a_class_that_its_text_splits_better_is_left_to_the_text() -> None:
    """X finds class 7, and the global vector bears it out, but in X it stands out less than in T."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=5.0) for seed in (37, 38, 39))
    before = weigh(text, crossfit, cls, torch.ones(8))
    assert before.learned.min() > 0.2
    crossfit[:, 7] -= 1.0 * (torch.arange(400) % 8 == 7)
    blurred = weigh(text, crossfit, cls, torch.ones(8))
    assert 0.5 < gain(crossfit)[7] / gain(text)[7] < 0.8
    assert blurred.learned[7] == 0
    assert blurred.presence[7] > 0.9
    assert blurred.text[7] > before.text[7]
    assert blurred.learned[:7].min() > 0.15


def test_look_alikes_are_told_from_a_correlation_of_three_quarters_on() -> None:
    """Text and global vector agree on both; that X has one of them for the other is all that tells."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=5.0) for seed in (29, 30, 31))
    expected = {0.9: (0.70, 1.0), 0.6: (0.84, 0.0)}
    for own, (alike, presence) in expected.items():
        mixed = crossfit.clone()
        mixed[:, 7] = crossfit[:, 6] + own * crossfit[:, 7]
        found = weigh(text, mixed, cls, torch.ones(8)).presence[7]
        assert float(agreement(mixed[:, 6:7], mixed[:, 7:])) == pytest.approx(alike, abs=0.01)
        assert float(found) == pytest.approx(presence, abs=0.02)


def test_twins_are_found_some_classes_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class whose learnt scores are those of a class that agrees better with its text; by all pairs."""
    random = torch.Generator().manual_seed(0)
    crossfit = torch.randn(90, 11, generator=random)
    text = crossfit + 2 * torch.rand(11, generator=random) * torch.randn(90, 11, generator=random)
    crossfit[:, 9] = crossfit[:, 3] + 0.1 * crossfit[:, 9]
    own = agreement(text, crossfit).tolist()
    pairs = torch.corrcoef(crossfit.T).tolist()
    expected = [max([0.0, *(pairs[c][d] for d in range(11) if own[d] > own[c])]) for c in range(11)]
    monkeypatch.setattr("piaa.presence._CLASSES_AT_ONCE", 4)
    assert nearest_twin(text, crossfit).tolist() == pytest.approx(expected, abs=1e-5)
    assert expected[9] > 0.9


def test_what_the_global_vector_sees_nothing_of_is_not_learnt() -> None:
    """Text and global vector agree on class 7 (bicycle); X finds other images as well (wheels)."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=5.0) for seed in (32, 33, 34))
    others = 5.0 * (torch.arange(400) % 16 == 3)
    noise = torch.randn(400, generator=torch.Generator().manual_seed(35))
    for share, presence in ((0.3, 0.0), (1.0, 1.0)):
        crossfit[:, 7] = others + noise + share * text[:, 7]
        weights = weigh(text, crossfit, cls, torch.ones(8))
        assert weights.presence[7] == pytest.approx(presence, abs=0.01)
        assert weights.presence[:7].min() > 0.9


def test_what_was_found_in_few_images_counts_little() -> None:
    """The same splits, with 5, 16 and 50 images of each class."""
    learned, whole = [], []
    for n in (40, 128, 400):
        text, crossfit, cls = (scores(n, 8, seed=seed, split=6.0) for seed in (40, 41, 42))
        weights = weigh(text, crossfit, cls, torch.ones(8))
        others = weights.fuse(text, crossfit, cls, None)
        learned.append(float(weights.learned.max()))
        whole.append(float(with_whole(weights, others, others).whole.max()))
    assert 0 < learned[0] < 0.06 < learned[1] < 0.3 < 0.4 < learned[2]
    full = 0.45 / (1 + 0.35**2)  # of the share, at a correlation of 1
    for images, share in zip((5, 16, 50), whole, strict=True):
        assert share == pytest.approx(full * images**2 / (images**2 + 16**2), abs=0.01)


def test_what_varies_out_of_proportion_is_not_learnt_beside_a_good_text() -> None:
    """X of class 3 is what it was, times 1.5 and times 3: how alike scores are does not change by that."""
    text, crossfit, cls = (scores(400, 8, seed=seed, split=6.0) for seed in (50, 51, 52))
    usual = weigh(text, crossfit, cls, torch.ones(8))
    for times, kept in ((1.5, 1.0), (2.1, 0.5), (3.0, 0.0)):
        louder = crossfit.clone()
        louder[:, 3] *= times * text[:, 3].std() / crossfit[:, 3].std()
        weights = weigh(text, louder, cls, torch.ones(8))
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
    assert TextStrength.of(text, crossfit).weak == 1
    assert float((crossfit.std(0) / text.std(0)).min()) > 2
    assert weigh(text, crossfit, cls, torch.ones(8)).evidence.min() > 0.8


def test_the_whole_image_classifier_was_taught_little_of_a_class_that_is_hardly_found() -> None:
    text, crossfit, cls = (scores(400, 8, seed=seed) for seed in (56, 57, 58))
    weights = weigh(text, crossfit, cls, torch.ones(8))
    others = weights.fuse(text, crossfit, cls, None)
    surely = replace(weights, evidence=torch.ones(8))
    full = with_whole(surely, others, others).whole
    # Half of what others find is enough; a tenth is not.
    for part, kept in ((0.5, 1.0), (0.2, 0.5), (0.1, 0.25), (0.0, 0.0)):
        less = replace(surely, evidence=part * found(others))
        assert torch.allclose(with_whole(less, others, others).whole, kept * full, atol=0.01)


def a_text_that_hardly_splits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """T hardly splits any class, X splits two of eight clearly, g is noise."""
    text, crossfit = scores(400, 8, seed=43, split=1.0), scores(400, 8, seed=44, split=1.0)
    holds = torch.nn.functional.one_hot(torch.arange(400) % 8, 8)[:, :2]
    text[:, :2] += 1.5 * holds
    crossfit[:, :2] += 9 * holds
    return text, crossfit, torch.randn(400, 8, generator=torch.Generator().manual_seed(45))


def test_a_global_vector_that_sees_nothing_of_any_class_denies_none() -> None:
    text, crossfit, cls = a_text_that_hardly_splits()
    assert agreement(cls, crossfit).abs().max() < 0.15
    assert weigh(text, crossfit, cls, torch.zeros(8)).presence[:2].min() > 0.6


def test_text_makes_way_for_a_class_that_alone_is_split_several_times_as_well() -> None:
    text, crossfit, cls = a_text_that_hardly_splits()
    assert TextStrength.of(text, crossfit).weak == 0  # for most classes X is no better
    weights = weigh(text, crossfit, cls, torch.zeros(8))
    assert weights.learned[0] > 0.8
    assert weights.text[2:].min() > 0.1
