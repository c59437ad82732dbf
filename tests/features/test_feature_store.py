from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fake_encoder import ColorEncoder, squares
from piaa import Recognizer
from piaa.encoders.base import ImageFeatures
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import ImageError, InputError
from piaa.features.sample import image_ids
from piaa.features.store import SPEC_FILE, FeatureStore

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")

SPEC = ColorEncoder().spec


@pytest.fixture
def features() -> ImageFeatures:
    return ColorEncoder().encode_images([squares(i, ["red", "blue"]) for i in range(7)])


class TestRoundTrip:
    def test_features_come_back(self, tmp_path: Path, features: ImageFeatures) -> None:
        store = FeatureStore.create(tmp_path / "new" / "folder", SPEC)
        assert list(store) == []
        for part in (features[0:3], features[3:4], features[4:7]):
            store.add(part)
        reopened = FeatureStore.open(tmp_path / "new" / "folder", SPEC)
        for _ in range(2):  # as often as wanted
            found = list(reopened)
            assert [len(part) for part in found] == [3, 1, 3]
            every = ImageFeatures.concatenate(found)
            assert torch.equal(every.cls, features.cls)
            assert torch.equal(image_ids(every.cls), image_ids(features.cls))
            assert every.grid == features.grid
            torch.testing.assert_close(every.patches, features.patches, atol=1e-3, rtol=0)
            lengths = every.patches.norm(dim=-1)
            torch.testing.assert_close(lengths, torch.ones_like(lengths))

    def test_half_the_memory(self, tmp_path: Path, features: ImageFeatures) -> None:
        store = FeatureStore.create(tmp_path, SPEC)
        store.add(features)
        (shard,) = tmp_path.glob("*.safetensors")
        numbers = features.patches.numel() * 2 + features.cls.numel() * 4
        assert shard.stat().st_size < numbers + 100 * len(features) + 1000

    def test_tiles(self, tmp_path: Path) -> None:
        encoder = TiledEncoder(ColorEncoder())
        store = FeatureStore.create(tmp_path, encoder.spec)
        store.add(encoder.encode_images([squares(0, ["red"])]))
        (found,) = store
        assert (found.windows, found.grid) == (5, (8, 8))

    def test_a_shard_is_never_written_over(self, tmp_path: Path, features: ImageFeatures) -> None:
        store = FeatureStore.create(tmp_path, SPEC)
        for i in range(3):
            store.add(features[i : i + 1])
        (tmp_path / "00000000.safetensors").unlink()
        store.add(features[6:7])
        kept = torch.cat([part.cls for part in store])
        assert torch.equal(kept, features.cls[[1, 2, 6]])


class TestRefusals:
    def test_folders_in_use(self, tmp_path: Path) -> None:
        (tmp_path / "note").touch()
        for place in (tmp_path, tmp_path / "note"):
            with pytest.raises(InputError, match="exists already"):
                FeatureStore.create(place, SPEC)

    def test_no_store(self, tmp_path: Path) -> None:
        for text in (None, "{", "[]"):
            if text is not None:
                (tmp_path / SPEC_FILE).write_text(text)
            with pytest.raises(InputError, match="holds no kept features"):
                FeatureStore.open(tmp_path, SPEC)

    def test_another_encoder(self, tmp_path: Path) -> None:
        FeatureStore.create(tmp_path, SPEC)
        with pytest.raises(InputError, match=r"'crop'.* there, .*'pad'.* here"):
            FeatureStore.open(tmp_path, ColorEncoder(fit="pad").spec)
        saved = json.loads((tmp_path / SPEC_FILE).read_text())
        (tmp_path / SPEC_FILE).write_text(json.dumps({**saved, "more": 1}))
        with pytest.raises(InputError, match="more: 1 there, None here"):
            FeatureStore.open(tmp_path, SPEC)

    def test_damaged_shards(self, tmp_path: Path, features: ImageFeatures) -> None:
        store = FeatureStore.create(tmp_path, SPEC)
        store.add(features)
        (shard,) = tmp_path.glob("*.safetensors")
        data = shard.read_bytes()
        for length in (0, 5, 100, len(data) - 1):
            shard.write_bytes(data[:length])
            with pytest.raises(InputError, match=r"00000000\.safetensors holds no whole features"):
                list(store)

    def test_an_unfinished_write_is_no_shard(self, tmp_path: Path, features: ImageFeatures) -> None:
        store = FeatureStore.create(tmp_path, SPEC)
        (tmp_path / ".00000000.part").write_bytes(b"half")
        assert list(store) == []
        store.add(features)
        assert len(list(store)) == 1


class TestWithRecognizer:
    def test_what_is_kept_is_what_was_learnt_from(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), ["red", "green", "blue"])
        recognizer.fit([squares(i, ["red"]) for i in range(6)], features=tmp_path / "kept")
        recognizer.partial_fit([squares(i, ["blue"]) for i in range(6, 9)])
        assert recognizer.features is not None
        assert sum(len(part) for part in recognizer.features) == 9
        other = recognizer.with_classes(["blue", "red"])
        assert other.report.n_images == 9
        with pytest.raises(InputError, match="exists already"):
            recognizer.fit([squares(0, ["red"])], features=tmp_path / "kept")

    def test_a_failed_fit_does_not_change_the_store_in_use(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), ["red", "green"])
        recognizer.fit([squares(i, ["red"]) for i in range(3)], features=tmp_path / "kept")
        with pytest.raises(ImageError):
            recognizer.fit([tmp_path / "gone.png"], features=tmp_path / "second")
        assert recognizer.features is not None
        assert recognizer.features.folder == tmp_path / "kept"

    def test_an_empty_store(self, tmp_path: Path) -> None:
        recognizer = Recognizer(ColorEncoder(), ["red", "green"])
        FeatureStore.create(tmp_path, SPEC)
        with pytest.raises(InputError, match="no images to fit on"):
            recognizer.with_classes(["red", "blue"], features=tmp_path)
