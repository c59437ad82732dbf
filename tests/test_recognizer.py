from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import normalize

import piaa
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
from piaa import Config, Recognizer, paa, pvcl
from piaa.encoders.base import Encoder
from piaa.errors import InputError, UnknownNameError
from piaa.features import sample
from worlds import patch_world

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for i, picture in enumerate(pictures()):
        picture.save(folder / f"{i:02d}.png")
    return folder


def test_the_fakes_are_encoders() -> None:
    assert isinstance(ColorEncoder(), Encoder)
    assert isinstance(FeatureEncoder({"a": torch.eye(2)[0]}), Encoder)


class TestWhatUsersDo:
    def test_from_zero_shot_to_a_saved_model(self, folder: Path, tmp_path: Path) -> None:
        encoder, images = ColorEncoder(), pictures(5)
        recognizer = piaa.Recognizer(encoder, classes=CLASSES)
        assert "zero-shot" in repr(recognizer)
        before = recognizer.predict(images)
        assert [p.top(1)[0][0] for p in before[:3]] == CLASSES
        report = recognizer.fit(str(folder))
        assert report is recognizer.report
        assert "12 images" in repr(recognizer)
        predictions = recognizer.predict(images)
        p = predictions[3]
        assert {name for name, _ in p.tags} == {"red", "blue"}
        assert p.scores.shape == (3,)
        assert [name for name, _ in p.top(3)][2] == "green"
        assert p.heatmap("red").shape == (8, 8)
        recognizer.save(tmp_path / "pets.piaa")
        loaded = piaa.Recognizer.load(tmp_path / "pets.piaa", encoder)
        assert loaded.predict(images)[3].tags == p.tags

    def test_classes_from_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "classes.txt"
        path.write_text("red: scarlet, crimson\n# a comment\ngreen\n", encoding="utf-8")
        recognizer = Recognizer(ColorEncoder(), path)
        assert recognizer.classes.names == ("red", "green")
        alone = ColorEncoder().encode_text(["a photo of a red"])
        words = ColorEncoder().encode_text([f"a photo of a {w}" for w in ("scarlet", "crimson")])
        mean = normalize(torch.cat([alone, words]).mean(0), dim=0)
        torch.testing.assert_close(recognizer.text[0], mean)

    def test_the_template_surrounds_the_words(self) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES, template="art of {}")
        expected = ColorEncoder().encode_text([f"art of {name}" for name in CLASSES])
        torch.testing.assert_close(recognizer.text, expected)


class TestImagesInAnyForm:
    def test_all_forms_teach_the_same(self, folder: Path) -> None:
        def fitted(images: object) -> Recognizer:
            recognizer = Recognizer(ColorEncoder(), CLASSES, config=SMALL_BANKS)
            recognizer.fit(images)
            return recognizer

        paths = sorted(folder.iterdir())
        features = ColorEncoder().encode_images(paths)
        first = fitted(folder)
        assert first.report.n_images == 12
        for images in (
            str(folder),
            paths,
            [str(path) for path in paths],
            pictures(),
            iter(pictures()),
            [np.array(p) for p in pictures()],
            np.stack([np.array(p) for p in pictures()]),
            features,
            [features[0:5], features[5:12]],
            (features[i : i + 1] for i in range(12)),
        ):
            assert_same(first, fitted(images))
        torch.testing.assert_close(all_scores(first, folder), all_scores(first, features))

    def test_one_image_needs_no_list(self, folder: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES)
        path = folder / "00.png"
        for image in (path, str(path), pictures(1)[0], np.array(pictures(1)[0])):
            (prediction,) = recognizer.predict(image)
            assert prediction.top(1)[0][0] == "red"

    @pytest.mark.parametrize("batch_size", [1, 5, 100])
    def test_batch_size_does_not_matter(self, folder: Path, batch_size: int) -> None:
        one, other, third = (Recognizer(ColorEncoder(), CLASSES) for _ in range(3))
        one.fit(folder)
        other.fit(folder, batch_size=batch_size)
        assert_same(one, other)
        third.fit(ColorEncoder().encode_images(sorted(folder.iterdir())), batch_size=batch_size)
        assert_same(one, third)
        expected = all_scores(one, folder)
        found = torch.stack([p.scores for p in one.predict(folder, batch_size=batch_size)])
        torch.testing.assert_close(found, expected)

    def test_stream_is_lazy_and_in_order(self) -> None:
        recognizer, taken = Recognizer(ColorEncoder(), CLASSES), []

        def endless() -> Iterator[Image.Image]:
            for i in range(10**9):
                taken.append(i)
                yield squares(i, [CLASSES[i % 3]])

        stream = recognizer.stream(endless(), batch_size=2)
        assert [next(stream).top(1)[0][0] for _ in range(6)] == CLASSES * 2
        assert len(taken) < 20

    def test_nothing_gives_nothing(self) -> None:
        assert Recognizer(ColorEncoder(), CLASSES).predict([]) == []


class TestPublishedForms:
    @pytest.mark.parametrize("config", [Config.paper(), Config.reference("voc")])
    def test_ranking_is_that_of_aggregate(self, config: Config) -> None:
        world = patch_world(3, 60, 9, 16, 5)
        recognizer = recognizer_of(world, config)
        recognizer.fit(features_of(world))
        bank = pvcl.new_bank(world.text, config)
        bank.update(world.patches, sample.image_ids(world.cls))
        classifier = pvcl.solve(bank, config)[0]
        fused = paa.aggregate(world.patches, world.cls, world.text, classifier, config).fused
        evidence = recognizer.scorer.evidence(features_of(world))
        torch.testing.assert_close(evidence.sigmoid(), fused, atol=1e-6, rtol=1e-4)
        # Thresholds shift classes against each other, never images within a class.
        scores = all_scores(recognizer, features_of(world))
        rising = scores.gather(0, fused.argsort(0)).diff(dim=0)
        assert (rising >= -1e-6).all()


class TestCalibrate:
    WORLD = patch_world(7, 80, 9, 16, 4)

    @staticmethod
    def best_f1(scores: torch.Tensor, labels: torch.Tensor) -> float:
        """Over every cut there is, one by one."""
        cuts = scores.unique().tolist()
        return max(TestCalibrate.f1(scores >= cut, labels) for cut in cuts)

    @staticmethod
    def f1(tagged: torch.Tensor, labels: torch.Tensor) -> float:
        hits = int((tagged & labels).sum())
        return 2 * hits / (int(tagged.sum()) + int(labels.sum()))

    def test_best_f1_of_each_class(self) -> None:
        world = self.WORLD
        for fit_first in (False, True):
            recognizer = recognizer_of(world)
            if fit_first:
                recognizer.fit(features_of(world))
            evidence = recognizer.scorer.evidence(features_of(world))
            thresholds = recognizer.calibrate(features_of(world), world.labels)
            assert torch.equal(recognizer.scorer.thresholds, thresholds)
            scores = all_scores(recognizer, features_of(world))
            for c, labels in enumerate(world.labels.bool().T):
                best = self.best_f1(evidence[:, c], labels)
                assert self.f1(scores[:, c] >= 0.5, labels) == pytest.approx(best)

    def test_labels_in_any_form(self) -> None:
        world, names = self.WORLD, names_of(self.WORLD)
        lists = [[names[c] for c in row.nonzero().flatten()] for row in world.labels]
        found = [
            recognizer_of(world).calibrate(features_of(world), labels)
            for labels in (
                world.labels,
                world.labels.bool(),
                world.labels.float(),
                world.labels.numpy(),
                world.labels.tolist(),
                lists,
                tuple(set(row) for row in lists),
            )
        ]
        assert all(torch.equal(found[0], other) for other in found)

    def test_classes_without_positives_keep_theirs(self) -> None:
        world = self.WORLD
        recognizer = recognizer_of(world)
        recognizer.fit(features_of(world))
        before = recognizer.scorer.thresholds.clone()
        labels = world.labels.clone()
        labels[:, 1] = 0
        after = recognizer.calibrate(features_of(world), labels)
        assert after[1] == before[1]
        assert (after != before).sum() == 3
        assert torch.equal(recognizer.calibrate(features_of(world), [[]] * 80), after)

    def test_labels_that_do_not_fit(self) -> None:
        world = self.WORLD
        recognizer = recognizer_of(world)
        for labels, message in (
            (world.labels[:5], r"must be 80 x 4 .* not shape \(5, 4\)"),
            (world.labels[:, :3], r"not shape \(80, 3\)"),
            (world.labels * 2, "of 0 and 1, .* not 2"),
            (world.labels.float() * torch.nan, "not nan"),
            ([["a-thing"]] * 3, "not 3 lists of names"),
            (["a-thing"] * 80, "one list of class names an image"),
            ([[1], [1, 0]], "images x classes"),
            (None, "images x classes"),
        ):
            with pytest.raises(InputError, match=message):
                recognizer.calibrate(features_of(world), labels)
        with pytest.raises(UnknownNameError, match=r"Unknown class 'a-thin'.*'a-thing'"):
            recognizer.calibrate(features_of(world), [["a-thin"]] * 80)
        with pytest.raises(InputError, match="no images to calibrate"):
            recognizer.calibrate([], world.labels)


class TestRetained:
    def test_exactly_the_cells_of_the_bank(self) -> None:
        world = patch_world(11, 20, 9, 16, 4)
        config = Config(bank_size=5, bank_fraction=None)
        recognizer = recognizer_of(world, config)
        recognizer.fit(features_of(world))
        cosines = world.patches.double() @ world.text.double().T
        label = cosines.argmax(-1)
        best, second = cosines.topk(2, dim=-1).values.unbind(-1)
        lead = best - (cosines.mean(-1) + second) / 2
        for c, name in enumerate(names_of(world)):
            least = lead[label == c].sort(descending=True).values[:5][-1]
            expected = (label == c) & (lead >= least - 1e-12)
            marks = recognizer.retained(features_of(world), name)
            assert marks.dtype == torch.bool
            assert torch.equal(marks, expected)
        assert not recognizer.retained(features_of(patch_world(12, 3, 9, 16, 4)), name).any()
        with pytest.raises(UnknownNameError, match="nothing"):
            recognizer.retained(features_of(world), "nothing")

    def test_on_the_pictures_they_came_from(self, folder: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES, config=SMALL_BANKS)
        recognizer.fit(folder)
        for path in sorted(folder.iterdir()):
            features = recognizer.encoder.encode_images([path])
            marks = recognizer.retained(features, "red")[0]
            assert (features.patches[0, marks, 1] > 0.8).all()  # number 1 of a vector is red
