"""What a found class says against the others: counted by hand, and where it decides."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from piaa import Config, paa, pvcl
from piaa.branch_statistics import gain
from piaa.company import MOST, PRIOR, Company, one_thing, solitude
from piaa.scoring import Scorer, text_branch
from test_auto import FIT, features, fit, mean_ap
from worlds import varied_world


@pytest.fixture
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if patches formed none, as those of photographs: groups alone would tell these worlds' classes."""
    monkeypatch.setattr("piaa.finishing.learn_groups", lambda *_: None)


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


def test_solitude_among_some_classes() -> None:
    """A class that does not count is as if it were not there; half of one counts half."""
    found = torch.rand(300, 4, generator=torch.Generator().manual_seed(3)) ** 2
    found[:, 2] *= 1 - found[:, 0]
    without = solitude(found, among=torch.tensor([1.0, 1.0, 1.0, 0.0]))
    assert torch.allclose(without[:3], solitude(found[:, :3]), atol=1e-6)
    among = torch.tensor([1.0, 0.5, 1.0, 0.25])
    for d in range(4):
        rest = [e for e in range(4) if e != d]
        together = sum((found[:, d] * found[:, e]).mean() * among[e] for e in rest)
        usual = sum(found[:, d].mean() * found[:, e].mean() * among[e] for e in rest)
        expected = -math.log((together / usual + PRIOR / 300) / (1 + PRIOR / 300))
        seen = solitude(found, among=among)[d].item()
        assert seen == pytest.approx(max(expected, 0.0), abs=1e-5)


class TestOneThing:
    """Whether images hold one thing each is for the clear classes to say, and for most of them."""

    one_each = torch.eye(6).repeat(50, 1)

    def test_ends(self) -> None:
        chance = (torch.rand(300, 6, generator=torch.Generator().manual_seed(0)) < 0.3).float()
        assert one_thing(self.one_each, torch.ones(6)) == 1
        assert one_thing(chance, torch.ones(6)) == 0
        assert one_thing(self.one_each[:60], torch.ones(6)) == 0  # sixty images do not make a rule
        assert one_thing(self.one_each, torch.zeros(6)) == 0

    def test_two_names_of_one_thing(self) -> None:
        found = torch.cat([self.one_each, self.one_each[:, :1]], 1)
        assert one_thing(found, torch.ones(7)) == 1

    def test_lumps_do_not_count(self) -> None:
        chance = (torch.rand(300, 2, generator=torch.Generator().manual_seed(1)) < 0.6).float()
        found = torch.cat([self.one_each, chance], 1)
        assert one_thing(found, torch.ones(8)) == 0
        assert one_thing(found, torch.tensor([1.0] * 6 + [0.0] * 2)) == 1


def test_solitude_at_its_ends() -> None:
    one_each = torch.eye(5).repeat(1000, 1)
    assert (solitude(one_each) == MOST).all()
    always_together = torch.ones(6, 3) * (torch.arange(6) % 2)[:, None]
    assert (solitude(always_together) == 0).all()
    assert (solitude(torch.zeros(7, 3)) == 0).all()
    # Two images prove nothing: five with the usual company are taken to have been seen before.
    assert solitude(torch.eye(2)).max() < 0.4


@pytest.mark.parametrize("with_rivals", [False, True])
def test_explaining_one_by_one(with_rivals: bool) -> None:
    random = torch.Generator().manual_seed(2)
    evidence = 3 * torch.randn(6, 5, generator=random)
    company = Company(
        torch.randn(5, generator=random),
        torch.tensor(1.7),
        torch.rand(5, generator=random),
        with_rivals * 4 * torch.rand(5, generator=random),
        torch.zeros(5),
    )
    explained = company.explain(evidence, None)
    for i in range(6):
        margin = [1.7 * (evidence[i, d] - company.level[d]).item() for d in range(5)]
        found = [sigmoid(m) for m in margin]
        cost, rival = company.cost.tolist(), company.rival.tolist()
        for c in range(5):
            others = [d for d in range(5) if d != c]
            d = max(others, key=lambda d: found[d] * (cost[d] + rival[d]))
            own = sigmoid(margin[c] - margin[d]) * rival[c] / max(rival) if with_rivals else 0
            rest = found[d] * (cost[d] + rival[d] * (1 - own))
            assert explained[i, c].item() == pytest.approx(evidence[i, c].item() - rest, abs=1e-5)
        assert torch.equal(company.explain(evidence[i : i + 1], None)[0], explained[i])


def test_of_two_rivals_the_one_that_stands_out_more_stays() -> None:
    none = torch.zeros(3)
    company = Company(none, torch.tensor(3.0), none, torch.tensor([8.0, 8, 0]), none)
    first, second, lump = company.explain(torch.tensor([[4.0, 2.0, 6.0]]), None)[0].tolist()
    assert first == pytest.approx(4, abs=0.05)
    assert second == pytest.approx(2 - 8, abs=0.05)
    assert lump == pytest.approx(6 - 8, abs=0.05)  # high by chance


@pytest.mark.parametrize("rival", [0.0, 8.0])
@pytest.mark.parametrize("elimination", [[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]])
def test_classes_off_a_shortlist_say_nothing(rival: float, elimination: list[float]) -> None:
    costs = torch.tensor([1.0, 2.0, 4.0])
    company = Company(
        torch.zeros(3), torch.tensor(1.0), costs, rival * costs, torch.tensor(elimination)
    )
    off = torch.tensor([[0.5, -torch.inf, -torch.inf]])
    found = company.explain(off, 3 * off)
    assert found[0, 0] == off[0, 0]
    assert torch.equal(found[0, 1:], off[0, 1:])


class TestElimination:
    """A class that nothing else explains the image by."""

    evidence = torch.randn(50, 4, generator=torch.Generator().manual_seed(4))
    learned = 2 * torch.randn(50, 4, generator=torch.Generator().manual_seed(5))
    company = Company.of(evidence, None)

    def test_by_hand(self) -> None:
        company = replace(self.company, elimination=torch.tensor([0.5, 0.0, 2.0, 1.0]))
        explained = company.explain(self.evidence, self.learned)
        before = self.company.explain(self.evidence, self.learned)
        for i in (0, 17, 49):
            odds = [math.exp(x) for x in self.learned[i].tolist()]
            for c, weight in enumerate((0.5, 0.0, 2.0, 1.0)):
                more = weight * math.log(odds[c] / sum(odds))
                assert (explained - before)[i, c].item() == pytest.approx(more, abs=1e-5)

    def test_beside_a_weak_text_it_counts_as_much_as_the_rest(self) -> None:
        weak = torch.tensor([1.0, 0.5, 0.0, 1.0])
        company = self.company.with_elimination(self.evidence, self.learned, weak)
        rest = self.company.explain(self.evidence, None)
        added = company.explain(self.evidence, self.learned) - rest
        torch.testing.assert_close(added.std(0), weak * rest.std(0))

    def test_what_is_the_same_for_every_image_eliminates_nothing(self) -> None:
        same = torch.zeros(50, 4)
        company = self.company.with_elimination(self.evidence, same, torch.ones(4))
        assert company.elimination.tolist() == [0, 0, 0, 0]

    def test_beside_a_good_text_there_is_none(self) -> None:
        good = fit(varied_world(5, FIT, text=0.75), slice(FIT)).scorer.company
        assert good is not None
        assert not good.elimination.any()

    def test_a_class_that_its_text_tells_is_left_alone(self) -> None:
        world = varied_world(2, FIT, n_classes=5, text=0.3, cls=0.0, labels=(2, 4))
        scorer = fit(world, slice(FIT)).scorer
        assert scorer.company is not None
        told = gain(text_branch(world.patches, world.text, scorer.scales.text)) >= 0.04
        assert told.any()
        assert torch.equal(scorer.company.elimination == 0, told)

    @pytest.mark.usefixtures("no_groups")
    @pytest.mark.parametrize(("seed", "n_classes", "labels"), [(2, 5, (2, 4)), (4, 8, (2, 4))])
    def test_it_finds_what_the_text_does_not(
        self, seed: int, n_classes: int, labels: tuple[int, int]
    ) -> None:
        world = varied_world(seed, FIT + 200, n_classes=n_classes, text=0.3, cls=0.0, labels=labels)
        test = slice(FIT, None)
        scorer, seen = fit(world, slice(FIT)).scorer, features(world, test)
        assert scorer.company is not None
        none = replace(scorer.company, elimination=torch.zeros(n_classes))
        without = mean_ap(world, test, replace(scorer, company=none).evidence(seen))
        assert mean_ap(world, test, scorer.evidence(seen)) > without + 1


@pytest.mark.usefixtures("no_groups")
@pytest.mark.parametrize("seed", [805, 1105, 1305, 1405])
def test_one_thing_an_image_tells_classes_that_no_text_knows(seed: int) -> None:
    """Five classes, one an image, of which one or two have a text at chance: the rest gives them away."""
    world = varied_world(
        seed, FIT + 200, n_classes=5, text=0.3, cls=0.3, cls_noise=0.6, labels=(1, 1)
    )
    test = slice(FIT, None)
    scorer, seen = fit(world, slice(FIT)).scorer, features(world, test)
    assert scorer.company is not None
    assert scorer.company.rival.max() > 0
    with_it = mean_ap(world, test, scorer.evidence(seen))
    without = mean_ap(world, test, plain(scorer).evidence(seen))
    assert with_it > without + 10
    assert with_it > 85


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
    assert not scorer.company.rival.any()
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
    assert scorer.company.rival.any()
    tagged = scorer.scores(features(named, test)) >= 0.5
    truth = named.labels[test].bool()
    assert tagged.float().mean() < 1.5 * truth.float().mean()
    f1 = 2 * (tagged & truth).sum(0) / (tagged.sum(0) + truth.sum(0))
    assert f1.mean() > 0.85


def test_shares_are_of_what_is_left() -> None:
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


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def plain(scorer: Scorer) -> Scorer:
    return replace(scorer, company=None)
