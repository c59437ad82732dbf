"""What a fit has gathered: to a file and back, and in any order, without a bit changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import SMALL_BANKS, features_of
from piaa import Config, ImageFeatures
from piaa.artifact import Artifact, load_artifact, save_artifact
from piaa.errors import ArtifactError
from piaa.features import sample
from piaa.fitting.gathered import Gathered
from piaa.scale.fit_state import FORMAT, load_gathered, save_gathered
from worlds import World, patch_world

WORLD = patch_world(0, 60, 6, 8, 4)
PRESETS = [SMALL_BANKS, Config(bank_size=3, bank_floor=1), Config.reference("voc")]


def nearly(world: World, seed: int) -> World:
    """The same pictures, with the last bits of an encoder that saw them in other batches."""
    rng = np.random.RandomState(seed)

    def shaken(vectors: Tensor) -> Tensor:
        noise = torch.from_numpy(rng.uniform(-1e-7, 1e-7, vectors.shape)).float()
        return normalize(vectors + noise, dim=-1)

    return world._replace(patches=shaken(world.patches), cls=shaken(world.cls))


COPIES = [WORLD, nearly(WORLD, 1), nearly(WORLD, 2)]


def gathered_from(
    images: list[int], config: Config, after: Gathered | None = None, world: World = WORLD
) -> Gathered:
    gathered = Gathered(WORLD.text, config) if after is None else after.successor()
    for start in range(0, len(images), 5):
        gathered.add(features_of(world, images[start : start + 5]))
    return gathered


def assert_equal(one: Gathered, other: Gathered) -> None:
    first, second = one.state(), other.state()
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        same = tensor.reshape(-1).view(torch.uint8), second[name].reshape(-1).view(torch.uint8)
        assert torch.equal(*same), name
    assert one.config == other.config


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "SAMPLE_IMAGES", 64)
    monkeypatch.setattr(sample, "capacity", lambda *_: 16)


class TestFile:
    @pytest.mark.parametrize("config", PRESETS)
    @pytest.mark.parametrize("images", [[], [3], list(range(60))])
    def test_round_trip(self, tmp_path: Path, config: Config, images: list[int]) -> None:
        gathered = gathered_from(images, config)
        facts = {"images": 3, "skipped": [["caf\udce9.jpg", "ünlesbar"]]}
        save_gathered(tmp_path / "state", gathered, facts)
        found, told = load_gathered(tmp_path / "state")
        assert_equal(found, gathered)
        assert told == facts
        # It goes on as the one that was written would have.
        for one in (found, gathered):
            one.add(features_of(WORLD, [0, 7, 9]))
        assert_equal(found, gathered)

    def test_the_same_bytes(self, tmp_path: Path) -> None:
        for name, order in (("a", range(60)), ("b", reversed(range(60)))):
            save_gathered(tmp_path / name, gathered_from(list(order), SMALL_BANKS))
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_damage_is_seen(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        save_gathered(path, gathered_from([1, 2, 3], SMALL_BANKS))
        whole = path.read_bytes()
        for place in range(8, len(whole), 997):
            damaged = bytearray(whole)
            damaged[place] ^= 4
            path.write_bytes(damaged)
            with pytest.raises(ArtifactError):
                load_gathered(path)
        for length in (0, 7, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(ArtifactError):
                load_gathered(path)

    def test_other_files(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="nothing"):
            load_gathered(tmp_path / "nothing")
        save_artifact(tmp_path / "model", Artifact({}, {}))
        with pytest.raises(ArtifactError, match=f"no {FORMAT} file"):
            load_gathered(tmp_path / "model")
        save_artifact(
            tmp_path / "state", Artifact({}, {"config": {}, "facts": "{}"}), format=FORMAT
        )
        with pytest.raises(ArtifactError, match="not a whole"):
            load_gathered(tmp_path / "state")
        with pytest.raises(ArtifactError, match="no saved piaa recognizer"):
            load_artifact(tmp_path / "state")


class TestMerging:
    @pytest.mark.parametrize("config", PRESETS)
    @settings(max_examples=8, deadline=None)
    @given(data=st.data())
    def test_any_order_of_parts_that_know_of_earlier_ones(
        self, config: Config, data: st.DataObject
    ) -> None:
        """Each part leaves out what cannot matter beside some parts before it."""
        order = data.draw(st.permutations(range(60)))
        cuts = sorted(data.draw(st.sets(st.integers(1, 59), max_size=5)))
        parts: list[Gathered] = []
        seen = Gathered(WORLD.text, config)
        for start, stop in zip([0, *cuts], [*cuts, 60], strict=True):
            known = seen if data.draw(st.booleans()) else Gathered(WORLD.text, config)
            parts.append(gathered_from(list(order[start:stop]), config, after=known))
            seen.merge(parts[-1])
        total = Gathered(WORLD.text, config)
        for part in data.draw(st.permutations(parts)):
            total.merge(part)
        assert_equal(total, gathered_from(list(range(60)), config))
        assert_equal(seen, total)

    @pytest.mark.parametrize("config", PRESETS)
    @settings(max_examples=6, deadline=None)
    @given(data=st.data())
    def test_copies_in_any_order_and_grouping(self, config: Config, data: st.DataObject) -> None:
        """An encoder's vectors change by 1e-7 with the batch: of a picture that is there several times,
        which copy is kept must not show what came first."""
        parts = [
            gathered_from(numbers, config, world=COPIES[copy])
            for copy in range(len(COPIES))
            for numbers in ([0, 1, 2, 3], [4, 5, 6, 7, 8], list(range(9, 30)))
        ]
        expected = Gathered(WORLD.text, config)
        for part in parts:
            expected.merge(part)
        left = data.draw(st.permutations(parts))
        while len(left) > 1:
            first = data.draw(st.integers(0, len(left) - 2))
            merged = Gathered(WORLD.text, config)
            for part in data.draw(st.permutations(left[first : first + 2])):
                merged.merge(part)
            left[first : first + 2] = [merged]
        assert_equal(left[0], expected)

    def test_copies_in_one_batch(self) -> None:
        config = PRESETS[0]
        for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
            both = [features_of(COPIES[copy], [5, 6]) for copy in order]
            together = Gathered(WORLD.text, config)
            together.add(ImageFeatures.concatenate(both))
            one_by_one = Gathered(WORLD.text, config)
            for features in reversed(both):
                one_by_one.add(features)
            assert_equal(together, one_by_one)

    def test_later_parts_are_small(self) -> None:
        config = Config(bank_size=4, bank_floor=1)
        first = gathered_from(list(range(40)), config)
        alone, after = (gathered_from(list(range(40, 60)), config, after=a) for a in (None, first))

        def size(gathered: Gathered) -> int:
            return sum(tensor.nbytes for tensor in gathered.state().values())

        assert size(after) < 0.6 * size(alone)
        assert after.n_images == alone.n_images

    def test_a_sample_that_was_full_by_chance(self) -> None:
        """16 images fill it; those that come later are too high, and it must not look complete."""
        ids = sample.image_ids(WORLD.cls).argsort().tolist()
        first = gathered_from(ids[:16], SMALL_BANKS)
        assert first.sample.complete
        later = gathered_from(ids[16:20], SMALL_BANKS, after=first)
        assert len(later.sample) == 0
        first.merge(later)
        assert not first.sample.complete
