"""Other names beside a short list of classes: they compete, and nobody sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from fake_encoder import (
    CLASSES,
    ColorEncoder,
    FeatureEncoder,
    features_of,
    names_of,
    pictures,
    squares,
)
from piaa import Config, Recognizer
from piaa.artifact import load_artifact
from piaa.classes.class_list import ClassList
from piaa.classes.others import ENOUGH, NAMES, choose, unnamed_share
from piaa.errors import InputError
from piaa.fitting.gathered import Gathered
from piaa.pvcl import Bank
from worlds import World, varied_world

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


@pytest.fixture(scope="module")
def world() -> World:
    """24 things, of which 3 are classes and 12 are given as other names."""
    return varied_world(3, 500, n_classes=24, text=0.6, labels=(1, 3))


@pytest.fixture(scope="module")
def closed() -> World:
    """Images that show the 3 classes alone, of 15 things."""
    return varied_world(8, 400, n_classes=15, text=0.7, labels=(1, 2), absent=12, n_without=400)


def made(world: World, n_others: int = 12, n_classes: int = 3) -> Recognizer:
    names = names_of(world)
    encoder = FeatureEncoder(dict(zip(names, world.text, strict=True)))
    others = names[n_classes : n_classes + n_others]
    return Recognizer(encoder, names[:n_classes], others=others or None)


class TestChoice:
    """Among unit vectors that stand for NAMES."""

    APART = torch.eye(64)[: len(NAMES)]

    def chosen(self, *classes: str, text: torch.Tensor, candidates: torch.Tensor) -> list[str]:
        return [NAMES[place] for place in choose(ClassList.of(classes), text, candidates)]

    def test_as_many_as_make_twenty_names_in_order(self) -> None:
        for count in (1, 3, 19, 20, 30):
            classes = [f"thing {i}" for i in range(count)]
            text = torch.eye(80)[40 : 40 + count, :64] + 0.01
            found = self.chosen(*classes, text=normalize(text, dim=1), candidates=self.APART)
            assert found == list(NAMES[: max(0, ENOUGH - count)])

    def test_what_may_mean_a_class_is_passed_over(self) -> None:
        center = self.APART.mean(0)
        own = self.APART[2] - center  # "tree"

        def taken(cosine: float) -> list[str]:
            across = torch.eye(64)[50] - center
            across = normalize(across - across @ own / (own @ own) * own, dim=0)
            along = cosine * normalize(own, dim=0) + (1 - cosine**2) ** 0.5 * across
            text = (center + along)[None]
            return self.chosen("a thing", text=text, candidates=self.APART)

        assert NAMES[2] == "tree"
        assert "tree" in taken(0.34)
        assert "tree" not in taken(0.36)

    @pytest.mark.parametrize("name", ["dog", "Dogs", "mutt: dog", "air-plane"])
    def test_the_same_word_is_passed_over_wherever_its_vector_is(self, name: str) -> None:
        away = torch.eye(64)[60:61]
        found = self.chosen(name, text=away, candidates=self.APART)
        assert ("dog" not in found) == ("dog" in name.lower())
        assert "airplane" not in found

    def test_of_two_that_are_alike_the_first_is_taken(self) -> None:
        candidates = self.APART.clone()
        candidates[1] = normalize(candidates[0] + 0.5 * candidates[1], dim=0)
        found = self.chosen("a thing", text=torch.eye(64)[60:61], candidates=candidates)
        assert found == ["person", *NAMES[2:20]]

    def test_an_encoder_that_does_not_tell_them_apart(self) -> None:
        same = torch.eye(64)[:1].expand(len(NAMES), -1)
        assert self.chosen("a thing", text=torch.eye(64)[1:2], candidates=same) == ["person"]
        assert self.chosen("a thing", text=torch.eye(64)[:1], candidates=same) == []


class TestAsking:
    def test_a_short_list_gets_some_and_a_long_one_none(self) -> None:
        short = Recognizer(ColorEncoder(), CLASSES)
        assert 0 < len(short.others) <= ENOUGH - 3
        assert len(short.prototypes) == 3 + len(short.others)
        assert len(short.text) == 3
        assert not Recognizer(ColorEncoder(), [f"thing {i}" for i in range(20)]).others
        assert not Recognizer(ColorEncoder(), CLASSES, others=None).others

    @pytest.mark.parametrize("config", [Config.paper(), Config.reference("voc")])
    def test_the_published_forms_know_none(self, config: Config) -> None:
        assert not Recognizer(ColorEncoder(), CLASSES, config=config).others
        asked = Recognizer(ColorEncoder(), CLASSES, config=config, others=["white"])
        asked.fit(pictures())
        assert asked.predict(pictures(2))[0].scores.shape == (3,)

    def test_names_of_ones_own(self, tmp_path: Path) -> None:
        (tmp_path / "others.txt").write_text("white\nyellow: golden\n")
        for others in (["white", "yellow: golden"], tmp_path / "others.txt"):
            assert Recognizer(ColorEncoder(), CLASSES, others=others).others == ("white", "yellow")

    @pytest.mark.parametrize("name", ["red", "Red ", "crimson"])
    def test_a_class_is_no_other_thing(self, name: str) -> None:
        with pytest.raises(InputError, match=r"which is a class"):
            Recognizer(ColorEncoder(), ["red: crimson", "green"], others=["white", name])

    def test_a_class_alone_has_something_to_be_compared_with(self) -> None:
        red, blue = squares(1, ["red"]), squares(2, ["blue"])
        recognizer = Recognizer(ColorEncoder(), ["red"], others=["blue", "black", "green"])
        first, second = recognizer.predict([red, blue])
        assert [name for name, _ in first.tags] == ["red"]
        assert second.tags == []

    def test_one_that_is_alone_after_all(self) -> None:
        recognizer = Recognizer(ColorEncoder(), ["red"], others=None)
        with pytest.raises(InputError, match=r"single class \('red'\) has nothing to be compared"):
            recognizer.predict(pictures(1))
        recognizer.fit(pictures())
        assert recognizer.predict(pictures(1))[0].scores.shape == (1,)


class TestScores:
    def test_before_a_fit_they_are_those_among_all_names(self, world: World) -> None:
        some, names = made(world), names_of(world)
        every = Recognizer(some.encoder, names[:15], others=None)
        images = features_of(world)
        found = some.scorer.scores(images)
        assert found.shape == (500, 3)
        torch.testing.assert_close(found, every.scorer.scores(images)[:, :3], atol=1e-6, rtol=1e-5)

    def test_after_a_fit_as_well(self, world: World) -> None:
        some, names = made(world), names_of(world)
        every = Recognizer(some.encoder, names[:15], others=None)
        images = features_of(world)
        some.fit(images)
        every.fit(images)
        assert some.scorer.n_others == 12
        found, expected = (r.scorer.evidence(images) for r in (some, every))
        assert torch.equal(found, expected[:, :3])
        assert torch.equal(some.scorer.thresholds, every.scorer.thresholds[:3])
        assert some.report.classes == every.report.classes[:3]
        marked, known = (r.retained(images, names[1]) for r in (some, every))
        assert torch.equal(marked, known)

    def test_they_are_worth_it_where_images_show_more_than_the_classes(self, world: World) -> None:
        learn, test = slice(300), slice(300, None)
        truth = world.labels[test, :3].bool()
        right = []
        for n_others in (0, 12):
            recognizer = made(world, n_others)
            before = recognizer.scorer.scores(features_of(world, test)) >= 0.5
            recognizer.fit(features_of(world, learn))
            after = recognizer.scorer.scores(features_of(world, test)) >= 0.5
            right.append([float((tagged == truth).float().mean()) for tagged in (before, after)])
        without, with_them = right
        assert (
            with_them[0] > without[0] + 0.2
        )  # words alone: among three names, one is always likely
        assert with_them[1] > 0.97

    def test_nobody_sees_them(self, world: World) -> None:
        recognizer = made(world)
        recognizer.fit(features_of(world, slice(300)))
        names = set(names_of(world)[:3])
        for prediction in recognizer.predict(features_of(world, slice(300, 340)), threshold=0):
            assert {name for name, _ in prediction.tags} == names
            assert {name for name, _ in prediction.top(9)} == names
        assert {row.name for row in recognizer.report.classes} == names
        assert int(recognizer.scorer.evidence(features_of(world, slice(2))).shape[1]) == 3

    def test_a_shortlist_of_a_short_list_is_the_whole(self, world: World) -> None:
        recognizer = made(world)
        images = features_of(world, slice(5))
        listed = recognizer.predict(images, shortlist=2)
        for one, other in zip(listed, recognizer.predict(images), strict=True):
            assert torch.equal(one.scores, other.scores)


class TestClosedCollections:
    """Where images show the classes and nothing else, other names only blur them."""

    def test_they_are_left_out(self, closed: World) -> None:
        recognizer = made(closed)
        report = recognizer.fit(features_of(closed))
        assert report.unnamed is not None
        assert report.unnamed < 0.2
        scorer = recognizer.scorer
        assert scorer.n_others == 0
        assert len(scorer.text) == 3
        # What was nearer to one of the others is in no bank.
        nearest = (closed.patches @ closed.text.T).argmax(-1)
        for column, name in enumerate(names_of(closed)[:3]):
            marked = recognizer.retained(features_of(closed), name)
            assert (nearest[marked] == column).all()
        found = scorer.scores(features_of(closed)) >= 0.5
        assert (found == closed.labels[:, :3].bool()).float().mean() > 0.95

    def test_more_images_may_bring_them_back(self) -> None:
        mixed = varied_world(8, 800, n_classes=15, text=0.7, absent=12, n_without=400)
        recognizer = made(mixed)
        recognizer.fit(features_of(mixed, slice(400)))
        assert recognizer.scorer.n_others == 0
        recognizer.partial_fit(features_of(mixed, slice(400, None)))
        assert recognizer.scorer.n_others == 12
        whole = made(mixed)
        whole.fit(features_of(mixed))
        assert torch.equal(recognizer.scorer.thresholds, whole.scorer.thresholds)

    def test_it_is_said_in_the_report(self, closed: World, world: World) -> None:
        for some in (closed, world):
            report = made(some).fit(features_of(some))
            true = 1 - float(some.labels[:, :3].any(1).float().mean())
            assert report.unnamed == pytest.approx(true, abs=0.15)
            assert f"none of them in about {report.unnamed:.0%}" in str(report)
            assert type(report).from_dict(report.to_dict()) == report
        assert made(world, 0).fit(features_of(world)).unnamed is None

    def test_the_share_by_hand(self) -> None:
        best = torch.tensor([0, 1, 1, 2, 3, 3])
        evidence = torch.eye(4)[best]
        assert unnamed_share(evidence, 2) == pytest.approx((3 + 4) / (6 + 4))
        assert unnamed_share(evidence[:0], 2) == 1

    def test_a_bank_of_the_first_classes(self, closed: World) -> None:
        bank = Bank(closed.text, size=32)
        bank.update(closed.patches, torch.arange(400))
        first = bank.first(3)
        every, mine = bank.members(), first.members()
        for name, column in vars(mine).items():
            assert torch.equal(column, vars(every)[name][every.label < 3])
        assert (first.n_images, first.n_patches, first.n_classes) == (400, 400 * 36, 3)
        assert len(bank.members().label) == len(every.label)


class TestFiles:
    @pytest.mark.parametrize("seed", [3, 8])
    def test_saved_and_loaded(self, seed: int, tmp_path: Path) -> None:
        absent = {"absent": 21, "n_without": 200} if seed == 8 else {}
        world = varied_world(seed, 200, n_classes=24, text=0.7, labels=(1, 2), **absent)
        recognizer, path = made(world), tmp_path / "model.piaa"
        images = features_of(world)
        for fit in (False, True):
            if fit:
                recognizer.fit(images)
                assert recognizer.scorer.n_others == (0 if absent else 12)
            recognizer.save(path)
            loaded = Recognizer.load(path, recognizer.encoder)
            assert torch.equal(loaded.scorer.scores(images), recognizer.scorer.scores(images))
            assert loaded.is_fitted == fit
            assert len(loaded.others) == loaded.scorer.n_others
            again = tmp_path / "again.piaa"
            loaded.save(again)
            assert load_artifact(again).tensors.keys() == load_artifact(path).tensors.keys()
        assert loaded.report == recognizer.report

    def test_shards_merge(self, world: World) -> None:
        whole, left, right = (made(world) for _ in range(3))
        whole.fit(features_of(world))
        left.fit(features_of(world, slice(200)))
        right.fit(features_of(world, slice(200, None)))
        left.merge(right)
        images = features_of(world, slice(20))
        assert torch.equal(left.scorer.scores(images), whole.scorer.scores(images))

    def test_gathered_elsewhere(self, world: World) -> None:
        recognizer = made(world)
        gathered = Gathered(recognizer.prototypes, recognizer.config)
        gathered.add(features_of(world))
        recognizer.adopt(gathered)
        whole = made(world)
        whole.fit(features_of(world))
        assert torch.equal(recognizer.scorer.thresholds, whole.scorer.thresholds)
