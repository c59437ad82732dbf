from __future__ import annotations

from pathlib import Path

import pytest

from comparing import all_scores
from fake_encoder import (
    CLASSES,
    ColorEncoder,
    FeatureEncoder,
    features_of,
    names_of,
    pictures,
    recognizer_of,
)
from piaa import Recognizer
from piaa.errors import InputError
from piaa.features import sample
from piaa.images import Tiles
from worlds import patch_world

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


class TestWithClasses:
    WORLD = patch_world(10, 50, 9, 16, 6)

    def encoder(self) -> FeatureEncoder:
        return FeatureEncoder(dict(zip(names_of(self.WORLD), self.WORLD.text, strict=True)))

    def check(self, found: Recognizer) -> None:
        fresh = Recognizer(found.encoder, found.classes, others=found.others or None)
        fresh.fit(features_of(self.WORLD))
        scores = all_scores(found, features_of(self.WORLD))
        expected = all_scores(fresh, features_of(self.WORLD))
        assert (scores - expected).abs().max() < 0.05
        assert (scores - expected).abs().mean() < 0.005
        assert found.report.n_images == 50

    def test_from_a_folder_or_from_memory(self, tmp_path: Path) -> None:
        names = names_of(self.WORLD)
        features = features_of(self.WORLD)
        kept, plain = (Recognizer(self.encoder(), names[:4]) for _ in range(2))
        kept.fit(features, features=tmp_path / "features", batch_size=8)
        plain.fit(features)
        self.check(kept.with_classes(names[2:]))
        self.check(kept.with_classes(names[2:]).with_classes(names[1:4]))
        self.check(plain.with_classes(names[2:]))
        self.check(plain.with_classes({"a-thing": ["b-thing"], "c-thing": []}))
        loaded = Recognizer(self.encoder(), names[:2])
        self.check(loaded.with_classes(names[2:], features=tmp_path / "features"))

    def test_copies_do_not_count_as_missing(self) -> None:
        recognizer = Recognizer(self.encoder(), names_of(self.WORLD))
        recognizer.fit([features_of(self.WORLD), features_of(self.WORLD, [0, 1])])
        self.check(recognizer.with_classes(names_of(self.WORLD)[:3], others=None))

    def test_only_with_all_features(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sample, "SAMPLE_IMAGES", 64)
        world = patch_world(9, 70, 2, 8, 3)
        recognizer = recognizer_of(world)
        with pytest.raises(InputError, match="features were not kept"):
            recognizer.with_classes(names_of(world))
        recognizer.fit(features_of(world))
        with pytest.raises(InputError, match="features were not kept"):
            recognizer.with_classes(names_of(world))
        # Of two merged recognizers one folder is not enough.
        one, other = (recognizer_of(world) for _ in range(2))
        one.fit(features_of(world, range(35)), features=tmp_path / "one")
        other.fit(features_of(world, range(35, 70)))
        with pytest.raises(InputError, match="features were not kept"):
            one.merge(other).with_classes(names_of(world))

    def test_tiles_stay(self) -> None:
        recognizer = Recognizer(ColorEncoder(), CLASSES, tiles=2)
        recognizer.fit(pictures())
        other = recognizer.with_classes(["red", "yellow"])
        assert other.encoder.spec.tiles == Tiles().to_dict()
        assert other.predict(pictures(1))[0].top(1)[0][0] == "red"
