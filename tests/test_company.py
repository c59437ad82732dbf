"""What a found class says against the others: counted by hand, and where it decides."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from piaa import Config
from piaa.company import MOST, PRIOR, Company, solitude
from piaa.scoring import Scorer
from test_auto import FIT, features, fit, mean_ap
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
    company = Company(
        torch.randn(5, generator=random), torch.tensor(1.7), torch.rand(5, generator=random)
    )
    found = company.explain(evidence)
    for i in range(6):
        against = [
            company.cost[d].item() / (1 + math.exp(-1.7 * (evidence[i, d] - company.level[d])))
            for d in range(5)
        ]
        for c in range(5):
            rest = max(against[:c] + against[c + 1 :])
            assert found[i, c].item() == pytest.approx(evidence[i, c].item() - rest, abs=1e-5)
        assert torch.equal(company.explain(evidence[i : i + 1])[0], found[i])


def test_classes_off_a_shortlist_say_nothing() -> None:
    company = Company(torch.zeros(3), torch.tensor(1.0), torch.tensor([1.0, 2.0, 4.0]))
    off = torch.tensor([[0.5, -torch.inf, -torch.inf]])
    found = company.explain(off)
    assert found[0, 0] == off[0, 0]
    assert torch.equal(found[0, 1:], off[0, 1:])


@pytest.mark.parametrize("seed", [805, 905, 1105])
def test_one_thing_an_image_tells_classes_that_no_text_knows(seed: int) -> None:
    """Five classes, one an image, of which one or two have a text at chance: the rest gives them away."""
    world = varied_world(
        seed, FIT + 200, n_classes=5, text=0.3, cls=0.3, cls_noise=0.6, labels=(1, 1)
    )
    test = slice(FIT, None)
    scorer = fit(world, slice(FIT)).scorer
    assert scorer.company is not None
    assert scorer.company.cost.max() > 0
    seen = features(world, test)
    with_it = mean_ap(world, test, scorer.evidence(seen))
    without = mean_ap(world, test, plain(scorer).evidence(seen))
    assert with_it > without + 4


def test_many_things_an_image_leave_all_as_it_is() -> None:
    world = varied_world(5, FIT + 200, text=0.45, labels=(4, 8))
    test = slice(FIT, None)
    scorer = fit(world, slice(FIT)).scorer
    seen = features(world, test)
    with_it = mean_ap(world, test, scorer.evidence(seen))
    assert with_it == pytest.approx(mean_ap(world, test, plain(scorer).evidence(seen)), abs=0.1)


def test_thresholds_are_of_what_is_left() -> None:
    """The report's shares are those of the images that the finished scorer tags."""
    world = varied_world(905, FIT, n_classes=5, text=0.3, cls=0.3, cls_noise=0.6, labels=(1, 1))
    fitted = fit(world, slice(FIT))
    tagged = (fitted.scorer.scores(features(world, slice(FIT))) >= 0.5).float().mean(0)
    assert torch.allclose(tagged, fitted.prevalence, atol=0.01)
    unexplained = (plain(fitted.scorer).scores(features(world, slice(FIT))) >= 0.5).float().mean(0)
    assert (unexplained - fitted.prevalence).abs().max() > 0.05


def test_presets_have_none() -> None:
    world = varied_world(5, 40, n_classes=5, n_patches=9)
    assert fit(world, slice(40), Config.reference("voc")).scorer.company is None


def plain(scorer: Scorer) -> Scorer:
    return replace(scorer, company=None)
