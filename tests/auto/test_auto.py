"""The default on worlds where each branch is strong, weak or useless: it must know without labels."""

from __future__ import annotations

import math

import pytest
import torch

from measured_worlds import FIT, assert_above_text_and_presets, features, fit, mean_ap
from piaa import paa, pvcl
from piaa.classes.class_list import ClassList
from piaa.config import Config
from piaa.fitting.fit_report import FitReport
from piaa.fitting.fitted import Fitted
from piaa.scoring import Scorer, cls_branch, text_branch
from worlds import World, patch_world, varied_world

STRONG, WEAK, USELESS = (0.6, 0.3), (0.3, 0.6), (0.0, 0.3)


@pytest.mark.parametrize("cls", [STRONG, WEAK, USELESS], ids=["cls+", "cls", "cls-"])
@pytest.mark.parametrize(
    ("n_classes", "text", "labels"),
    [
        (5, 0.75, (1, 3)),
        (5, 0.45, (1, 3)),
        (5, 0.3, (1, 1)),
        (5, 0.3, (1, 3)),
        (5, 0.3, (2, 4)),
        (8, 0.3, (1, 3)),
        (8, 0.3, (2, 4)),
        (20, 0.75, (1, 3)),
        (20, 0.75, (4, 8)),
        (20, 0.45, (1, 3)),
        (20, 0.45, (4, 8)),
        (20, 0.3, (4, 8)),
        (80, 0.45, (4, 8)),
    ],
)
def test_never_below_text_alone_nor_the_published_presets(
    n_classes: int, text: float, labels: tuple[int, int], cls: tuple[float, float]
) -> None:
    options = {"n_classes": n_classes, "text": text, "cls": cls[0], "cls_noise": cls[1]}
    world = varied_world(5, FIT + 200, labels=labels, **options)
    assert_above_text_and_presets(world)


@pytest.mark.parametrize("cls", [WEAK, USELESS], ids=["cls", "cls-"])
def test_what_splits_clearly_is_heard_beside_a_text_and_a_global_vector_that_tell_nothing(
    cls: tuple[float, float],
) -> None:
    """T and g split no class of this world, and all five texts are at chance or next to it."""
    world = varied_world(
        302, FIT + 200, n_classes=5, text=0.3, labels=(2, 4), cls=cls[0], cls_noise=cls[1]
    )
    fitted, test = fit(world, slice(FIT)), slice(FIT, None)
    seen = features(world, test)
    evidence = fitted.scorer.evidence(seen)
    by_text = text_branch(seen.patches, world.text, fitted.scorer.scales.text)
    assert mean_ap(world, test, evidence) > mean_ap(world, test, by_text) + 15
    for column in (3, 4):
        assert mean_ap(world, test, evidence, slice(column, column + 1)) > 99


@pytest.mark.parametrize("cls", [WEAK, USELESS], ids=["cls", "cls-"])
def test_what_was_learnt_is_heard_where_noise_hides_classes_from_their_text(
    cls: tuple[float, float],
) -> None:
    """No class splits by much, no groups are found, and G is at 85 mAP, T at 50 and g below 30."""
    world = varied_world(
        1100,
        FIT + 200,
        n_classes=20,
        text=0.45,
        labels=(2, 4),
        cls=cls[0],
        cls_noise=cls[1],
        patch_noise=2.0,
    )
    fitted, test = fit(world, slice(FIT)), slice(FIT, None)
    assert not fitted.group.any()
    seen = features(world, test)
    by_text = text_branch(seen.patches, world.text, fitted.scorer.scales.text)
    ours = mean_ap(world, test, fitted.scorer.evidence(seen))
    assert ours > mean_ap(world, test, by_text) + 20
    assert fitted.scorer.weights.cls.mean() < 0.1


def test_five_hundred_classes() -> None:
    world = varied_world(6, 600, n_classes=500, n_patches=25, text=0.45)
    fitted, test = fit(world, slice(400)), slice(400, None)
    ours = mean_ap(world, test, fitted.scorer.evidence(features(world, test)))
    seen = features(world, test)
    by_patch = mean_ap(
        world, test, text_branch(seen.patches, world.text, fitted.scorer.scales.text)
    )
    assert ours >= by_patch - 0.5


def test_text_that_knows_nothing_is_not_made_worse() -> None:
    """Everything is at chance: no branch may be preferred to the point of harm."""
    world = varied_world(7, FIT + 400, text=0.0, cls=0.6)
    fitted, test = fit(world, slice(FIT)), slice(FIT, None)
    seen = features(world, test)
    ours = mean_ap(world, test, fitted.scorer.evidence(seen))
    by_patch = mean_ap(
        world, test, text_branch(seen.patches, world.text, fitted.scorer.scales.text)
    )
    assert ours >= by_patch - 1.0  # one standard deviation of a difference at chance here


def zero_shot(world: World, fitted: Fitted, images: slice) -> torch.Tensor:
    seen, scales = features(world, images), fitted.scorer.scales
    return 0.5 * text_branch(seen.patches, world.text, scales.text) + 0.5 * cls_branch(
        seen.cls, world.text, scales.cls
    )


@pytest.mark.parametrize("text", [0.6, 0.4])
def test_learning_curve_starts_at_zero_shot_and_does_not_dip(text: float) -> None:
    world = varied_world(8, 1300, n_patches=25, text=text, cls=0.6, cls_noise=0.5)
    test = slice(1000, None)
    curve = []
    for n in (20, 100, 1000):
        fitted = fit(world, slice(n))
        ours = mean_ap(world, test, fitted.scorer.evidence(features(world, test)))
        base = mean_ap(world, test, zero_shot(world, fitted, test))
        assert ours >= base - 0.5, n
        curve.append(ours)
    assert curve[0] - 0.5 <= curve[1] <= curve[2] + 0.5
    assert curve[2] > curve[0]


def test_few_images_of_many_classes_do_not_hide_what_the_global_vector_knows() -> None:
    """Objects without a patch of their own are seen in the global vector alone, which splits no class."""
    world = patch_world(15, 400, 16, 128, 40, patch_noise=0.3, most_labels=5)
    test, curve = slice(100, None), []
    for n in (20, 50, 100):
        fitted = fit(world, slice(n))
        curve.append(mean_ap(world, test, fitted.scorer.evidence(features(world, test))))
    seen = features(world, test)
    by_text = mean_ap(world, test, text_branch(seen.patches, world.text, fitted.scorer.scales.text))
    before = Scorer.zero_shot(world.text, Config.auto(), 100.0).evidence(seen)
    assert min(curve) > max(by_text + 5, mean_ap(world, test, before) - 0.5)
    assert curve == sorted(curve)


@pytest.mark.parametrize("cls", [WEAK, USELESS], ids=["cls", "cls-"])
def test_few_images_are_enough_to_leave_out_a_poor_global_vector(cls: tuple[float, float]) -> None:
    """On 20 images no ratio of splits is believed; that g agrees with nothing is plain."""
    world = varied_world(
        16, 320, dim=32, n_patches=16, text=0.45, cls=cls[0] / 2, cls_noise=2 * cls[1]
    )
    fitted, test = fit(world, slice(20)), slice(20, None)
    seen = features(world, test)
    ours = mean_ap(world, test, fitted.scorer.evidence(seen))
    by_text = text_branch(seen.patches, world.text, fitted.scorer.scales.text)
    assert ours > mean_ap(world, test, by_text) - 0.5


def test_absent_classes_stay_at_zero_shot_and_are_named() -> None:
    world = varied_world(9, 1000, text=0.5, absent=10, n_without=600)
    fitted, test = fit(world, slice(600)), slice(600, None)
    gone, there = slice(10, None), slice(0, 10)
    ours = fitted.scorer.evidence(features(world, test))
    base = zero_shot(world, fitted, test)
    assert mean_ap(world, test, ours, gone) >= mean_ap(world, test, base, gone) - 1.0
    assert mean_ap(world, test, ours, there) >= mean_ap(world, test, base, there)
    learned = fitted.scorer.weights.learned
    assert learned[there].min() > 3 * learned[gone].mean()
    names = tuple(f"class {index}" for index in range(20))
    report = FitReport.of(fitted, ClassList(names, tuple((name,) for name in names)))
    named = set(report.without_evidence)
    assert len(named & set(names[10:])) >= 9
    assert len(named & set(names[:10])) <= 1


def test_a_whole_image_is_surer_than_a_patch() -> None:
    """Mean entropies of the text branches: 0.8 and 0.6 of log C."""
    world = varied_world(14, 600)
    scales = fit(world, slice(600)).scorer.scales
    for vectors, scale, share in ((world.patches, scales.text, 0.8), (world.cls, scales.cls, 0.6)):
        p = (scale * vectors @ world.text.T).flatten(0, -2).double().softmax(1)
        entropy = -torch.xlogy(p, p).sum(1).mean() / math.log(len(world.text))
        assert entropy == pytest.approx(share, abs=0.005)


def test_from_few_images_both_text_branches_have_one_scale_as_before_any() -> None:
    """Half way, as a factor, at 50 images."""
    world = varied_world(14, 600)
    for n, share in ((10, 0.96), (50, 0.5), (100, 0.2), (600, 0.01)):
        scales = fit(world, slice(n)).scorer.scales
        matched = pvcl.match_scale(world.cls[:n] @ world.text.T, entropy=0.6)
        assert matched > 1.3 * scales.text
        assert math.log(scales.cls) == pytest.approx(
            share * math.log(scales.text) + (1 - share) * math.log(matched), abs=0.01
        )


@pytest.mark.parametrize(
    ("text", "labels", "cls"), [(0.45, (1, 1), STRONG), (0.3, (1, 3), USELESS)]
)
def test_twenty_images_of_eighty_classes_leave_the_text_as_it_was(
    text: float, labels: tuple[int, int], cls: tuple[float, float]
) -> None:
    """A global vector that spoke up as soon as there were images took 2 mAP from both."""
    world = varied_world(
        30 + (text > 0.4), 500, n_classes=80, text=text, cls=cls[0], cls_noise=cls[1], labels=labels
    )
    test = slice(300, None)
    seen = features(world, test)
    before = Scorer.zero_shot(world.text, Config.auto(), 100.0).evidence(seen)
    after = fit(world, slice(20)).scorer.evidence(seen)
    assert mean_ap(world, test, after) > mean_ap(world, test, before) - 1.0


def test_weights_are_weights() -> None:
    fitted = fit(varied_world(10, 200), slice(200))
    weights = fitted.scorer.weights
    total = weights.text + weights.learned + weights.cls + weights.whole
    torch.testing.assert_close(total, torch.ones_like(total))
    for part in vars(weights).values():
        assert ((part >= 0) & (part <= 1)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_next_to_no_images(n: int) -> None:
    world = varied_world(11, 50)
    fitted = fit(world, slice(n))
    evidence = fitted.scorer.evidence(features(world, slice(n, None)))
    assert evidence.isfinite().all()
    assert isinstance(fitted.scorer, Scorer)


def test_published_form_ranks_as_aggregate() -> None:
    world = varied_world(12, 200)
    config = Config.reference("voc")
    scorer = fit(world, slice(150), config).scorer
    seen = features(world, slice(150, None))
    fused = paa.aggregate(seen.patches, seen.cls, world.text, scorer.classifier, config).fused
    evidence = scorer.evidence(seen)
    for column in range(20):
        assert torch.equal(evidence[:, column].argsort(), fused[:, column].argsort())


def test_scores_rank_as_evidence_without_ties() -> None:
    """A sigmoid that is too steep would round many scores to 1, and average precision would suffer."""
    world = varied_world(13, 500)
    scorer = fit(world, slice(300)).scorer
    seen = features(world, slice(300, None))
    evidence, scores = scorer.evidence(seen), scorer.scores(seen)
    for column in range(20):
        assert (scores[evidence[:, column].argsort(), column].diff() >= 0).all()
    assert scores.max() < 1 - 1e-4
    by_scores, by_evidence = (mean_ap(world, slice(300, None), s) for s in (scores, evidence))
    assert by_scores == pytest.approx(by_evidence, abs=0.01)
