"""What a found class says against the others: counted by hand, and where it decides."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from measured_worlds import FIT, features, fit, mean_ap
from piaa import Config, paa, pvcl
from piaa.auto.company import MOST, PRIOR, Company, solitude
from piaa.scoring import Scorer
from worlds import varied_world


def test_solitude_is_a_count_of_other_classes() -> None:
    found = (torch.rand(200, 4, generator=torch.Generator().manual_seed(1)) < 0.4).float()
    found[found[:, 0] > 0, 1:3] = 0  # class 0 comes with class 3 or alone
    for d in range(4):
        others = [sum(found[i, e].item() for e in range(4) if e != d) for i in range(200)]
        with_it = [n for i, n in enumerate(others) if found[i, d] > 0]
        usual = sum(others) / 200
        seen = (sum(with_it) + PRIOR * usual * len(with_it) / 200) / (
            len(with_it) * (1 + PRIOR / 200)
        )
        expected = min(max(-math.log(seen / usual), 0.0), MOST)
        assert solitude(found)[d].item() == pytest.approx(expected, abs=1e-6)
    assert solitude(found)[0] > 0.5


def test_solitude_at_its_ends() -> None:
    one_each = torch.eye(5).repeat(1000, 1)
    assert (solitude(one_each) == MOST).all()
    always_together = torch.ones(6, 3) * (torch.arange(6) % 2)[:, None]
    assert (solitude(always_together) == 0).all()
    assert (solitude(torch.zeros(7, 3)) == 0).all()
    # Two images prove nothing: five with the usual company are taken to have been seen before.
    assert solitude(torch.eye(2)).max() < 0.4


def test_explaining_one_by_one() -> None:
    random = torch.Generator().manual_seed(2)
    evidence = 3 * torch.randn(6, 5, generator=random)
    level, cost = torch.randn(5, generator=random), torch.rand(5, generator=random)
    company = Company(level, torch.tensor(1.7), cost)
    explained = company.explain(evidence)
    for i in range(6):
        found = [sigmoid(1.7 * (evidence[i, d] - level[d]).item()) for d in range(5)]
        for c in range(5):
            against = max(found[d] * cost[d].item() for d in range(5) if d != c)
            left = evidence[i, c].item() - against
            assert explained[i, c].item() == pytest.approx(left, abs=1e-5)
        assert torch.equal(company.explain(evidence[i : i + 1])[0], explained[i])


def test_classes_off_a_shortlist_say_nothing() -> None:
    company = Company(torch.zeros(3), torch.tensor(1.0), torch.tensor([1.0, 2.0, 4.0]))
    off = torch.tensor([[0.5, -torch.inf, -torch.inf]])
    assert torch.equal(company.explain(off), off)


@pytest.mark.parametrize("seed", [805, 1105, 1305, 1405])
def test_where_images_hold_one_thing_the_softmax_of_the_published_code_is_no_better(
    seed: int,
) -> None:
    """It takes one thing an image for granted; the default has to find out."""
    world = varied_world(
        seed, FIT + 200, n_classes=5, text=0.3, cls=0.3, cls_noise=0.6, labels=(1, 1)
    )
    test, config = slice(FIT, None), Config.reference("coco")
    seen = features(world, test)
    learned = pvcl.learn([world.patches[:FIT]], world.text, config)
    published = paa.aggregate(seen.patches, seen.cls, world.text, learned, config).fused
    ours = mean_ap(world, test, fit(world, slice(FIT)).scorer.evidence(seen))
    assert ours > mean_ap(world, test, published) - 0.1


def test_many_things_an_image_leave_all_as_it_is() -> None:
    world = varied_world(5, FIT + 200, text=0.45, labels=(4, 8))
    test = slice(FIT, None)
    scorer = fit(world, slice(FIT)).scorer
    assert scorer.company is not None
    seen = features(world, test)
    with_it = mean_ap(world, test, scorer.evidence(seen))
    assert with_it == pytest.approx(mean_ap(world, test, plain(scorer).evidence(seen)), abs=0.1)


def test_a_small_vocabulary_is_not_cut_where_others_speak() -> None:
    """3 of the 24 things in the world have names, and an image holds one thing.

    Those that a class is ruled out in lie far below all others. Cut in between, a third of all images would
    have each tag.
    """
    world = varied_world(0, 1000, n_classes=24, text=0.45, labels=(1, 1))
    named = world._replace(text=world.text[:3], labels=world.labels[:, :3])
    test = slice(600, None)
    scorer = fit(named, slice(600)).scorer
    assert scorer.company is not None
    tagged = scorer.scores(features(named, test)) >= 0.5
    truth = named.labels[test].bool()
    assert tagged.float().mean() < 1.5 * truth.float().mean()
    f1 = 2 * (tagged & truth).sum(0) / (tagged.sum(0) + truth.sum(0))
    assert f1.mean() > 0.85


def test_shares_are_of_what_is_left() -> None:
    """The report's shares are those of the images that the finished scorer tags."""
    world = varied_world(5, FIT, n_classes=20, text=0.75, labels=(1, 2))
    fitted = fit(world, slice(FIT))
    tagged = (fitted.scorer.scores(features(world, slice(FIT))) >= 0.5).float().mean(0)
    assert torch.allclose(tagged, fitted.prevalence, atol=0.005)
    unexplained = (plain(fitted.scorer).scores(features(world, slice(FIT))) >= 0.5).float().mean(0)
    assert (unexplained - fitted.prevalence).abs().max() > 0.015


def test_presets_have_none() -> None:
    world = varied_world(5, 40, n_classes=5, n_patches=9)
    assert fit(world, slice(40), Config.reference("voc")).scorer.company is None


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def plain(scorer: Scorer) -> Scorer:
    return replace(scorer, company=None)
