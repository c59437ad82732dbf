from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from comparing import all_scores, assert_same
from fake_encoder import (
    CLASSES,
    SMALL_BANKS,
    ColorEncoder,
    FeatureEncoder,
    features_of,
    names_of,
    pictures,
    recognizer_of,
    squares,
)
from piaa import Config, FitReport, ImageFeatures, Recognizer, pvcl
from piaa.classes.class_list import ClassNameWarning
from piaa.errors import ImageError, InputError
from piaa.features import sample
from piaa.fitting.fit_report import EvidenceWarning
from worlds import patch_world

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


class TestMerging:
    WORLD = patch_world(0, 24, 6, 8, 4)

    @pytest.mark.parametrize("config", [SMALL_BANKS, Config.reference("voc")])
    @settings(max_examples=6, deadline=None)
    @given(data=st.data())
    def test_shards_in_any_order_and_grouping(self, config: Config, data: st.DataObject) -> None:
        world = self.WORLD
        whole = recognizer_of(world, config)
        whole.fit(features_of(world))
        order = data.draw(st.permutations(range(24)))
        owner = data.draw(st.lists(st.integers(0, 3), min_size=24, max_size=24))
        shards = []
        for shard in set(owner):
            mine = [i for i, o in zip(order, owner, strict=True) if o == shard]
            cut = data.draw(st.integers(0, len(mine)))
            recognizer = recognizer_of(world, config)
            for part in (mine[:cut], mine[cut:]):
                if part:
                    recognizer.partial_fit(features_of(world, part))
            shards.append(recognizer)
        while len(shards) > 1:
            taken = shards.pop(data.draw(st.integers(0, len(shards) - 1)))
            shards[data.draw(st.integers(0, len(shards) - 1))].merge(taken)
        assert_same(whole, shards[0])
        expected = all_scores(whole, features_of(world))
        assert torch.equal(all_scores(shards[0], features_of(world)), expected)

    def test_results_can_be_asked_for_on_the_way(self) -> None:
        world = self.WORLD
        whole, shard = (recognizer_of(world, SMALL_BANKS) for _ in range(2))
        whole.fit(features_of(world))
        for part in torch.arange(24).split(5):
            shard.partial_fit(features_of(world, part))
            assert shard.report.n_images == int(part[-1]) + 1
            all_scores(shard, features_of(world))
        assert_same(whole, shard)

    def test_a_copy_of_an_image_changes_nothing_but_the_count(self) -> None:
        world = self.WORLD
        one, again, together, merged = (recognizer_of(world, SMALL_BANKS) for _ in range(4))
        one.fit(features_of(world))
        copies = [*range(24), 3, 5, 3]
        again.fit(features_of(world, copies), batch_size=4)
        together.fit(features_of(world, copies))
        assert_same(again, together)
        merged.fit(features_of(world, range(12)))
        rest = recognizer_of(world, SMALL_BANKS)
        rest.fit(features_of(world, [*range(9, 24)]))
        merged.merge(rest)
        assert (again.report.n_images, merged.report.n_images) == (27, 27)
        for other in (again, merged):
            assert other.report.classes == one.report.classes
            expected = all_scores(one, features_of(world))
            assert torch.equal(all_scores(other, features_of(world)), expected)

    def test_bounded_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sample, "SAMPLE_IMAGES", 64)
        world = patch_world(1, 150, 2, 8, 3)
        recognizer = recognizer_of(world, SMALL_BANKS)
        recognizer.fit(features_of(world), batch_size=7)
        assert recognizer._learning.gathered is not None
        kept = recognizer._learning.gathered.sample
        assert torch.equal(kept.ids.sort().values, sample.image_ids(world.cls).sort().values[:64])
        assert kept._patches.shape[0] == 64
        assert recognizer.report.n_images == 150
        assert max(row.bank for row in recognizer.report.classes) <= 8

    def test_what_does_not_belong_together(self) -> None:
        world = self.WORLD
        fitted = recognizer_of(world)
        fitted.fit(features_of(world))
        with pytest.raises(InputError, match="Both recognizers must have been fitted"):
            fitted.merge(recognizer_of(world))
        other = recognizer_of(world, SMALL_BANKS)
        other.fit(features_of(world))
        with pytest.raises(InputError, match="different classes, encoders or configs"):
            fitted.merge(other)
        stranger = FeatureEncoder(
            dict(zip(names_of(world), world.text, strict=True)), sha256="2" * 64
        )
        alien = Recognizer(stranger, names_of(world), others=None)
        alien.fit(features_of(world))
        with pytest.raises(InputError, match=r"weights_sha256: '22.* there, '11.* here"):
            fitted.merge(alien)


class TestReport:
    def test_numbers_of_each_class(self) -> None:
        world = patch_world(3, 40, 9, 16, 5)
        config = replace(Config.reference("voc"), bank_size=20)
        recognizer = recognizer_of(world, config)
        report = recognizer.fit(features_of(world))
        bank = pvcl.new_bank(world.text, config)
        bank.update(world.patches, sample.image_ids(world.cls))
        expected = pvcl.solve(bank, config)[1]
        assert report.n_images == 40
        assert [row.name for row in report.classes] == names_of(world)
        for name in ("bank", "images", "kept", "moved", "text_fallback"):
            assert [getattr(row, name) for row in report.classes] == getattr(
                expected, name
            ).tolist()
        thresholds = torch.tensor([row.threshold for row in report.classes])
        assert torch.equal(thresholds, recognizer.scorer.thresholds)
        scores = all_scores(recognizer, features_of(world))
        share = torch.tensor([row.prevalence for row in report.classes])
        # The sample keeps half-precision patches, so that an image at the very threshold may move.
        assert ((scores >= 0.5).float().mean(0) - share).abs().max() <= 0.05

    def test_a_table_and_json(self) -> None:
        world = patch_world(3, 30, 4, 8, 3)
        report = recognizer_of(world).fit(features_of(world))
        lines = str(report).splitlines()
        assert lines[0] == "30 images, 3 classes"
        assert lines[1].split()[:5] == ["class", "bank", "images", "kept", "moved"]
        for row, line in zip(report.classes, lines[2:], strict=True):
            name, bank, images, kept, moved = line.split()[:5]
            assert name == row.name
            assert [int(n) for n in (bank, images, kept, moved)] == [
                row.bank,
                row.images,
                row.kept,
                row.moved,
            ]
            assert line.endswith(row.warning)
        assert FitReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
        with pytest.raises(InputError, match="no saved fit report"):
            FitReport.from_dict({"n_images": 3})

    @pytest.mark.parametrize("patch_noise", [1e-2, 1e-4])
    def test_patches_that_are_nearly_the_same(self, patch_noise: float) -> None:
        """Flat pictures: a class without spread is told apart by millions of nats, at the scale of others."""
        world = patch_world(1, 60, 9, 32, 4, patch_noise=patch_noise)
        recognizer = recognizer_of(world)
        recognizer.fit(features_of(world))
        assert recognizer.scorer.evidence(features_of(world)).isfinite().all()

    def test_classes_without_evidence_are_named(self) -> None:
        world = patch_world(0, 300, 9, 32, 4, text_strength=1.2, patch_noise=0.3)
        away = normalize(-world.patches.mean((0, 1)), dim=0)  # no patch is near it
        names = [*names_of(world), "unicorn"]
        encoder = FeatureEncoder(dict(zip(names, [*world.text, away], strict=True)))
        recognizer = Recognizer(encoder, names, others=None)
        with pytest.warns(EvidenceWarning, match=r"1 of 5 classes .*: unicorn\.") as caught:
            report = recognizer.fit(features_of(world))
        assert caught[0].filename == __file__
        assert report.without_evidence == ["unicorn"]
        assert str(report).splitlines()[-1].endswith("no evidence: stays with its text")
        assert (report.classes[4].bank, report.classes[4].text_fallback) == (0, True)
        assert recognizer.scorer.weights.learned[4] < 0.01
        with pytest.warns(EvidenceWarning, match=r"1 of 5 classes .*: unicorn\.") as caught:
            recognizer.with_classes(names, others=None)
        assert caught[0].filename == __file__

    def test_absent_classes_have_less_evidence(self) -> None:
        world = patch_world(3, 400, 9, 32, 8)
        absent = (world.labels[:, 6:] == 0).all(1)
        report = recognizer_of(world).fit(features_of(world, absent))
        evidence = [row.evidence for row in report.classes]
        assert max(evidence[6:]) < min(evidence[:6])

    def test_no_warning_without_need(self, recwarn: pytest.WarningsRecorder) -> None:
        world = patch_world(0, 300, 9, 32, 4, text_strength=1.2, patch_noise=0.3)
        assert recognizer_of(world).fit(features_of(world)).without_evidence == []
        assert not recwarn

    def test_none_before_fit(self) -> None:
        recognizer = recognizer_of(patch_world(0, 2, 2, 8, 3))
        for ask in (lambda: recognizer.report, lambda: recognizer.retained(None, "a-thing")):
            with pytest.raises(InputError, match=r"before fit\(\)"):
                ask()


class TestEdges:
    def check(self, recognizer: Recognizer, images: ImageFeatures) -> None:
        recognizer.fit(images)
        scores = all_scores(recognizer, images)
        assert scores.isfinite().all()
        assert ((scores >= 0) & (scores <= 1)).all()
        assert all(
            np.isfinite([r.threshold, r.prevalence]).all() for r in recognizer.report.classes
        )

    @pytest.mark.parametrize("config", [Config.auto(), Config.paper(), Config.reference("coco")])
    @pytest.mark.parametrize("n_images", [1, 2, 3, 30])
    def test_few_and_identical_images(self, config: Config, n_images: int) -> None:
        world = patch_world(2, 3, 4, 8, 5)
        self.check(recognizer_of(world, config), features_of(world, range(min(3, n_images))))
        self.check(recognizer_of(world, config), features_of(world, [0] * n_images))

    def test_more_room_than_patches(self) -> None:
        world = patch_world(2, 5, 4, 8, 3)
        recognizer = recognizer_of(world, Config(bank_size=10_000, bank_fraction=None))
        self.check(recognizer, features_of(world))
        assert sum(row.bank for row in recognizer.report.classes) == 20

    def test_a_single_class(self) -> None:
        world = patch_world(2, 60, 9, 16, 3)
        recognizer = Recognizer(FeatureEncoder({"only": world.text[0]}), ["only"], others=None)
        with pytest.raises(InputError, match=r"single class .'only'. has nothing to be compared"):
            recognizer.predict(features_of(world))
        self.check(recognizer, features_of(world))
        scores = all_scores(recognizer, features_of(world))[:, 0]
        has = world.labels[:, 0] == 1
        assert scores[has].mean() > scores[~has].mean() + 0.2

    def test_a_single_class_and_image(self) -> None:
        world = patch_world(2, 3, 4, 8, 1, most_labels=1)
        recognizer = recognizer_of(world)
        self.check(recognizer, features_of(world, [0]))
        scores = all_scores(recognizer, features_of(world))[:, 0]
        evidence = recognizer.scorer.evidence(features_of(world))[:, 0]
        assert torch.equal(scores.argsort(), evidence.argsort())
        assert len(scores.unique()) == 3

    def test_names_that_are_alike(self) -> None:
        with pytest.raises(InputError, match="there twice"):
            Recognizer(ColorEncoder(), ["red", "Red "])
        with pytest.warns(ClassNameWarning, match="'reds'"):
            recognizer = Recognizer(ColorEncoder(), ["red", "reds", "green"])
        recognizer.fit(pictures())
        assert all_scores(recognizer, pictures()).isfinite().all()

    def test_classes_with_the_same_vector(self) -> None:
        world = patch_world(2, 30, 4, 8, 3)
        a, b, _ = world.text
        three = Recognizer(
            FeatureEncoder({"one": a, "two": a, "other": b}), ["one", "two", "other"]
        )
        self.check(three, features_of(world))
        both = Recognizer(FeatureEncoder({"one": a, "two": a}), ["one", "two"], others=None)
        with pytest.raises(InputError, match="class names that are the same"):
            both.fit(features_of(world))

    def test_images_that_are_no_images(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES)
        with pytest.raises(InputError, match="holds no picture"):
            recognizer.fit(tmp_path)
        (tmp_path / "note.jpg").write_text("not a picture")
        squares(0, ["red"]).save(tmp_path / "a.png")
        with pytest.raises(ImageError, match=r"note\.jpg"):
            recognizer.fit(tmp_path)
        with pytest.raises(ImageError, match=r"gone\.jpg"):
            recognizer.fit(tmp_path / "gone.jpg")
        for empty in ([], iter([])):
            with pytest.raises(InputError, match="no images to fit on"):
                recognizer.fit(empty)
            with pytest.raises(InputError, match="no images to fit on"):
                recognizer.partial_fit(empty)
        for wrong in (5, None):
            with pytest.raises(InputError, match="images cannot be a"):
                recognizer.fit(wrong)
        mixed = [ColorEncoder().encode_images(pictures(2)), pictures(1)[0]]
        with pytest.raises(InputError, match="not both"):
            recognizer.fit(mixed)
        # After all these it is as it was.
        assert not recognizer.is_fitted
        assert recognizer.predict(pictures(1))[0].top(1)[0][0] == "red"

    def test_a_failed_fit_leaves_the_last_one(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES)
        recognizer.fit(pictures())
        expected, report = all_scores(recognizer, pictures()), recognizer.report
        bad = tmp_path / "bad.png"
        bad.write_bytes(b"")
        with pytest.raises(ImageError):
            recognizer.fit([*pictures(6), bad])
        assert torch.equal(all_scores(recognizer, pictures()), expected)
        assert recognizer.report == report

    def test_a_failed_partial_fit_keeps_what_came_before(self) -> None:
        world = patch_world(2, 30, 4, 8, 3)
        recognizer, plain = recognizer_of(world), recognizer_of(world)
        bad = replace(features_of(world, [9]), cls=torch.full((1, 8), torch.nan))
        with pytest.raises(InputError, match="NaN"):
            recognizer.partial_fit([features_of(world, range(9)), bad])
        plain.fit(features_of(world, range(9)))
        assert_same(recognizer, plain)
        thresholds = recognizer.calibrate(features_of(world), world.labels)
        for nothing in ([], bad):
            with pytest.raises(InputError):
                recognizer.partial_fit(nothing)
        assert torch.equal(recognizer.scorer.thresholds, thresholds)

    @pytest.mark.parametrize("part", ["cls", "patches"])
    def test_features_that_cannot_be(self, part: str) -> None:
        world = patch_world(2, 6, 4, 8, 3)
        good = features_of(world)
        broken = getattr(good, part).clone()
        broken[4, ..., 2] = torch.nan
        recognizer = recognizer_of(world)
        for act in (recognizer.fit, recognizer.partial_fit, recognizer.predict):
            with pytest.raises(InputError, match=rf"{part} of the features .* row \(4,.*NaN"):
                act(replace(good, **{part: broken}))
        with pytest.raises(InputError, match="unit length"):
            recognizer.fit(replace(good, **{part: getattr(good, part) * 3}))
        narrow = ImageFeatures(good.cls[:, :5], good.patches[:, :, :5], good.grid)
        for act in (recognizer.fit, recognizer.predict):
            with pytest.raises(InputError, match=r"5 numbers a vector .* 8"):
                act(narrow)
        other_grid = features_of(patch_world(2, 6, 5, 8, 3))
        with pytest.raises(InputError, match="one encoder and image size"):
            recognizer.fit([good, other_grid])

    def test_arguments(self) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES)
        with pytest.raises(InputError, match="batch_size must be a whole number"):
            recognizer.fit(pictures(1), batch_size=0)
        with pytest.raises(InputError, match="tiles must be a whole number"):
            Recognizer(ColorEncoder(), CLASSES, tiles=0)
        with pytest.raises(InputError, match="template"):
            Recognizer(ColorEncoder(), CLASSES, template="no place")
