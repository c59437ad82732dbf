"""Features that are kept: the same whether found or new, safe from damage and from other processes."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from shaky_encoder import ShakyEncoder, save_pictures

from comparing import all_scores
from fake_encoder import CLASSES, ColorEncoder, squares
from piaa import ImageFeatures, Recognizer
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import ImageError, InputError, PiaaError, UnknownNameError
from piaa.features.shard_writing import ShardWriter, write_shard
from piaa.features.shards import DamagedShardError, Shard, StoredFeatures
from piaa.images import StoredImage, open_image
from piaa.scale import cache as cache_module
from piaa.scale.cache import CacheWarning, FeatureCache
from piaa.scale.cache_upkeep import describe_caches, prune_caches, verify_caches
from piaa.scale.cached_encoder import CachedEncoder

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


def cached(
    folder: Path, storage: str = "float16", encoder: ColorEncoder | None = None
) -> CachedEncoder:
    encoder = encoder or ShakyEncoder()
    return CachedEncoder(encoder, FeatureCache(encoder.spec, folder, storage=storage))


def same(one: ImageFeatures, other: ImageFeatures) -> bool:
    return (
        torch.equal(one.cls, other.cls)
        and torch.equal(one.patches, other.patches)
        and (one.grid, one.placements, one.windows) == (other.grid, other.placements, other.windows)
    )


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    return save_pictures(tmp_path / "photos", 11)


class TestShards:
    @pytest.mark.parametrize(("storage", "error"), [("float16", 1e-6), ("int8", 1e-4)])
    @pytest.mark.parametrize("tiled", [False, True])
    def test_round_trip(self, tmp_path: Path, storage: str, error: float, tiled: bool) -> None:
        encoder = TiledEncoder(ColorEncoder()) if tiled else ColorEncoder()
        features = encoder.encode_images([squares(i, ["red", "blue"]) for i in range(3)])
        write_shard(tmp_path / "shard", StoredFeatures.of(features, storage))
        found = Shard(tmp_path / "shard").read().features()
        assert torch.equal(found.cls, features.cls)
        assert (found.grid, found.windows, found.placements) == (
            features.grid,
            features.windows,
            features.placements,
        )
        cosines = (found.patches * features.patches).sum(-1)
        assert (1 - cosines).abs().max() < error
        assert torch.allclose(found.patches.norm(dim=-1), torch.ones(()))
        assert same(Shard(tmp_path / "shard").read(1, 3).features(), found[1:3])

    def test_sizes(self) -> None:
        features = ColorEncoder().encode_images([squares(0, ["red"])])
        half, eighth = (StoredFeatures.of(features, s).patches.nbytes for s in ("float16", "int8"))
        assert (half, eighth) == (features.patches.nbytes // 2, features.patches.nbytes // 4)
        with pytest.raises(UnknownNameError, match="storage"):
            StoredFeatures.of(features, "float8")

    def test_features_without_pictures(self, tmp_path: Path) -> None:
        features = replace(ColorEncoder().encode_images([squares(0, ["red"])]), placements=())
        write_shard(tmp_path / "shard", StoredFeatures.of(features))
        assert Shard(tmp_path / "shard").read().features().placements == ()

    @pytest.mark.parametrize("n", [1, 3])
    def test_numbers_of_odd_length(self, tmp_path: Path, n: int) -> None:
        """What follows the patches begins where its numbers may, however long they are."""
        stored = StoredFeatures(
            cls=torch.rand(n, 5),
            patches=torch.randint(-127, 128, (n, 7, 5), dtype=torch.int8),
            placements=torch.rand(n, 1, 8, dtype=torch.float64),
            grid=torch.tensor([1, 7, 1]),
        )
        keys = torch.randint(0, 256, (n, 16), dtype=torch.uint8)
        write_shard(tmp_path / "shard", stored, keys)
        shard = Shard(tmp_path / "shard")
        found = shard.read()
        assert all(torch.equal(value, getattr(found, name)) for name, value in vars(stored).items())
        assert torch.equal(shard.keys, keys)

    def test_pieces_are_one_shard(self, tmp_path: Path) -> None:
        features = ColorEncoder().encode_images([squares(i, ["red", "blue"]) for i in range(5)])
        stored = StoredFeatures.of(features)
        keys = torch.arange(5 * 16, dtype=torch.uint8).reshape(5, 16)
        write_shard(tmp_path / "whole", stored, keys)
        writer = ShardWriter(tmp_path / "pieces")
        for start, stop in ((0, 2), (2, 3), (3, 5)):
            writer.append(stored[start:stop], keys[start:stop])
        assert not (tmp_path / "pieces").exists()
        writer.close()
        assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()

    def test_what_goes_wrong_is_told_at_the_end(self, tmp_path: Path) -> None:
        stored = StoredFeatures.of(ColorEncoder().encode_images([squares(0, ["red"])]))
        writer = ShardWriter(tmp_path / "shard")
        writer.append(None)
        writer.append(stored)
        with pytest.raises(TypeError):
            writer.close()
        ShardWriter(tmp_path / "other").append(stored)
        assert list(tmp_path.iterdir()) == []

    def test_rows_are_joined(self) -> None:
        features = ColorEncoder().encode_images([squares(i, ["red", "blue"]) for i in range(5)])
        whole = StoredFeatures.of(features)
        first, second = whole[0:3], whole[3:5]
        order = [(second, 1), (first, 0), (first, 1), (first, 2), (second, 0), (first, 2)]
        joined = StoredFeatures.join(order).features()
        expected = whole.features()
        for place, row in enumerate([4, 0, 1, 2, 3, 2]):
            assert same(joined[place : place + 1], expected[row : row + 1])
        alone = StoredFeatures.join([(first, row) for row in range(3)])
        assert alone.patches.data_ptr() == first.patches.data_ptr()

    def test_every_bit_is_checked(self, tmp_path: Path) -> None:
        path = tmp_path / "shard"
        features = ColorEncoder(canvas=(16, 16)).encode_images(
            [squares(i, ["red"]) for i in range(2)]
        )
        write_shard(path, StoredFeatures.of(features), torch.ones(2, 16, dtype=torch.uint8))
        whole = path.read_bytes()
        expected = Shard(path).read().features()
        for place in range(0, len(whole), 3):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << place % 8
            path.write_bytes(damaged)
            try:
                found = Shard(path).read().features()
            except DamagedShardError:
                continue
            assert same(found, expected)  # white space of the header


class TestCachedEncoder:
    @pytest.mark.parametrize("storage", ["float16", "int8"])
    def test_found_is_what_was_given_first(
        self, tmp_path: Path, photos: list[Path], storage: str
    ) -> None:
        cold = cached(tmp_path / "cache", storage)
        first = cold.encode_images(photos, batch_size=4)
        warm = cached(tmp_path / "cache", storage)
        assert same(warm.encode_images(photos, batch_size=4), first)
        assert (cold.n_asked, cold.n_encoded) == (11, 11)
        assert (warm.n_asked, warm.n_encoded, warm.encoder.n_encoded) == (11, 0, 0)
        plain = ShakyEncoder().encode_images(photos, batch_size=4)
        assert torch.equal(first.cls, plain.cls)
        assert first.placements == plain.placements
        torch.testing.assert_close(first.patches, plain.patches, atol=5e-3, rtol=0)

    def test_batches_have_the_size_asked_for(self, tmp_path: Path, photos: list[Path]) -> None:
        encoder = cached(tmp_path / "cache")
        encoder.encode_images(photos[3:7])
        for _ in range(2):
            assert [len(f) for f in encoder.stream_images(photos, batch_size=4)] == [4, 4, 3]

    def test_the_bytes_count_not_the_name(self, tmp_path: Path, photos: list[Path]) -> None:
        encoder = cached(tmp_path / "cache")
        encoder.encode_images(photos)
        moved = photos[0].rename(tmp_path / "moved.bin")
        (tmp_path / "copy.png").write_bytes(photos[1].read_bytes())
        stored = StoredImage("row 7", photos[2].read_bytes)
        again = cached(tmp_path / "cache")
        again.encode_images([moved, tmp_path / "copy.png", stored])
        assert again.n_encoded == 0
        photos[3].write_bytes(photos[4].read_bytes())  # another picture under the same name
        assert same(again.encode_images([photos[3]]), again.encode_images([photos[4]]))

    def test_copies_within_a_run(self, tmp_path: Path, photos: list[Path]) -> None:
        encoder = cached(tmp_path / "cache")
        found = encoder.encode_images([*photos[:3], photos[0], photos[2]], batch_size=2)
        assert encoder.encoder.n_encoded == 3
        assert same(found[3:4], found[0:1])
        assert same(found[4:5], found[2:3])

    def test_pictures_without_files(self, tmp_path: Path) -> None:
        encoder = cached(tmp_path / "cache")
        image = squares(0, ["red"])
        flat = np.asarray(image)
        assert same(encoder.encode_images([image]), encoder.encode_images([flat]))
        assert encoder.n_encoded == 1
        assert encoder.encode_images([flat[::-1].copy()]) is not None
        assert encoder.n_encoded == 2

    def test_other_encoders_have_caches_of_their_own(
        self, tmp_path: Path, photos: list[Path]
    ) -> None:
        for encoder in (ColorEncoder(), ColorEncoder(fit="pad"), ColorEncoder(sha256="3" * 64),
                        ColorEncoder(canvas=(32, 32)), TiledEncoder(ColorEncoder())):  # fmt: skip
            wrapped = cached(tmp_path / "cache", encoder=encoder)
            wrapped.encode_images(photos[:2])
            assert wrapped.n_encoded == 2
        renamed = ColorEncoder()
        renamed.spec = replace(renamed.spec, name="the same by another name")
        assert cached(tmp_path / "cache", encoder=renamed).cache.folder.name.startswith("the-same")

    def test_bad_pictures_in_order(self, tmp_path: Path, photos: list[Path]) -> None:
        empty, gone = tmp_path / "empty.png", tmp_path / "gone.png"
        cut = tmp_path / "cut.png"
        empty.touch()
        cut.write_bytes(photos[0].read_bytes()[:100])
        images = [empty, *photos[:3], gone, cut, *photos[3:6], cut]
        encoder = cached(tmp_path / "cache")
        for _ in range(2):
            told: list[tuple[int, object, ImageError]] = []
            seen = []
            stream = encoder.stream_images(
                images, batch_size=2, on_error=lambda *error, told=told: told.append(error)
            )
            for features in stream:
                seen.append((len(features), [index for index, _, _ in told]))
            assert [error[:2] for error in told] == [(0, empty), (4, gone), (5, cut), (9, cut)]
            assert "no such file" in told[1][2].reason
            # Whoever counts along knows which pictures a batch holds.
            assert seen == [(2, [0]), (2, [0, 4, 5]), (2, [0, 4, 5])]
        with pytest.raises(ImageError, match=r"gone\.png"):
            list(encoder.stream_images([photos[0], gone]))

    def test_what_was_encoded_before_an_error_is_kept(
        self, tmp_path: Path, photos: list[Path]
    ) -> None:
        with pytest.raises(ImageError):
            list(
                cached(tmp_path / "cache").stream_images(
                    [*photos[:4], tmp_path / "gone"], batch_size=2
                )
            )
        again = cached(tmp_path / "cache")
        again.encode_images(photos[:4])
        assert again.n_encoded == 0

    def test_arguments(self, tmp_path: Path) -> None:
        encoder = cached(tmp_path / "cache")
        with pytest.raises(InputError, match="batch_size"):
            encoder.stream_images([], batch_size=0)
        with pytest.raises(InputError, match="Put it in a list"):
            encoder.stream_images("photo.jpg")
        with pytest.raises(InputError, match="cannot be looked up"):
            encoder.encode_pixels(torch.zeros(1, 3, 64, 64))
        assert list(encoder.stream_images([])) == []

    def test_a_recognizer_need_not_know(self, tmp_path: Path, photos: list[Path]) -> None:
        encoder = cached(tmp_path / "cache")
        first = Recognizer(encoder, CLASSES)
        first.fit(photos)
        # Other classes, and predicting, without encoding anything again.
        other = Recognizer(encoder, ["yellow", "red"])
        other.fit(photos)
        all_scores(other, photos)
        assert encoder.encoder.n_encoded == 11
        prediction = other.predict([photos[0]])[0]
        assert prediction.image_heatmap("red").shape == open_image(photos[0]).size[::-1]
        first.save(tmp_path / "model")
        loaded = Recognizer.load(tmp_path / "model", ShakyEncoder())
        assert loaded.classes == first.classes


class TestSharing:
    def test_shards_of_others_are_found(self, tmp_path: Path, photos: list[Path]) -> None:
        one, other = (cached(tmp_path / "cache") for _ in range(2))
        one.encode_images(photos[:5])
        other.encode_images(photos)
        one.encode_images(photos)
        assert (one.n_encoded, other.n_encoded) == (5, 6)
        assert len(one.cache) == 11

    def test_readers_and_writers_at_once(self, tmp_path: Path, photos: list[Path]) -> None:
        expected = cached(tmp_path / "alone").encode_images(photos, batch_size=1)
        wrong: list[object] = []

        def work(start: int) -> None:
            order = [*photos[start:], *photos[:start]]
            try:
                for _ in range(3):
                    found = cached(tmp_path / "cache").encode_images(order, batch_size=1)
                    moved = ImageFeatures.concatenate(
                        [found[11 - start : 11], found[0 : 11 - start]]
                    )
                    wrong.extend([] if same(moved, expected) else [start])
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(start,)) for start in (0, 3, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert not [problem for _, _, problem in verify_caches(tmp_path / "cache") if problem]

    def test_a_shard_pruned_under_way(self, tmp_path: Path, photos: list[Path]) -> None:
        cached(tmp_path / "cache").encode_images(photos)
        encoder = cached(tmp_path / "cache")
        stream = encoder.stream_images(photos, batch_size=2)
        encoder.cache._open.clear()
        prune_caches(tmp_path / "cache", most_bytes=0)
        assert sum(len(features) for features in stream) == 11
        assert encoder.n_encoded == 11

    def test_shards_do_not_grow_for_ever(
        self, tmp_path: Path, photos: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cache_module, "SHARD_BYTES", 2 * 2000)
        monkeypatch.setattr(cache_module, "OPEN_SHARDS", 2)
        encoder = cached(tmp_path / "cache")
        first = encoder.encode_images(photos, batch_size=2)
        assert len(list(encoder.cache.folder.glob("*.safetensors"))) > 2
        assert same(cached(tmp_path / "cache").encode_images(photos, batch_size=2), first)

    def test_a_full_disk(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder = cached(tmp_path / "cache")

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(PiaaError, match=r"No space left.*piaa cache prune"):
            encoder.encode_images([squares(0, ["red"])])

    def test_a_disk_that_fills_under_way(
        self, tmp_path: Path, photos: list[Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The thread that writes meets it; whoever encodes is told, and nothing is left."""
        monkeypatch.setattr(cache_module, "SHARD_BYTES", 2 * 2000)
        encoder = cached(tmp_path / "cache")
        checksums = StoredFeatures.checksums
        calls = []

        def full(stored: StoredFeatures, keys: torch.Tensor) -> torch.Tensor:
            calls.append(len(stored))
            if len(calls) == 3:
                raise OSError(28, "No space left on device")
            return checksums(stored, keys)

        monkeypatch.setattr(StoredFeatures, "checksums", full)
        with pytest.raises(PiaaError, match=r"No space left.*piaa cache prune"):
            encoder.encode_images(photos, batch_size=2)
        monkeypatch.undo()
        assert not list((tmp_path / "cache").rglob("*.part"))
        assert not [problem for _, _, problem in verify_caches(tmp_path / "cache") if problem]
        again = cached(tmp_path / "cache")
        again.encode_images(photos, batch_size=2)
        assert 0 < again.n_encoded < 11

    def test_found_while_it_is_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = ColorEncoder()
        cache = FeatureCache(encoder.spec, tmp_path / "cache")
        features = encoder.encode_images([squares(i, ["red"]) for i in range(2)])
        go_on = threading.Event()
        close = ShardWriter.close
        monkeypatch.setattr(ShardWriter, "close", lambda writer: (go_on.wait(20), close(writer))[1])
        monkeypatch.setattr(cache_module, "SHARD_BYTES", 1)
        stored = cache.add([b"a" * 16, b"b" * 16], features)
        assert not list(cache.folder.glob("*.safetensors"))
        assert len(cache) == 2
        assert b"b" * 16 in cache
        row = cache.get(b"b" * 16)
        assert row == (stored, 1)
        go_on.set()
        cache.flush()
        found = cache.get(b"b" * 16)
        assert found is not None
        assert found[0] is not stored
        assert same(StoredFeatures.join([found]).features(), stored[1:2].features())


class TestDamage:
    @pytest.mark.parametrize("place", [0.02, 0.5, 0.99])
    def test_detected_reported_rebuilt(
        self, tmp_path: Path, photos: list[Path], place: float
    ) -> None:
        first = cached(tmp_path / "cache").encode_images(photos, batch_size=4)
        (shard,) = (tmp_path / "cache").glob("*/*.safetensors")
        data = bytearray(shard.read_bytes())
        data[int(place * len(data))] ^= 255
        shard.write_bytes(data)
        encoder = ShakyEncoder()
        with pytest.warns(CacheWarning, match=f"{shard.name} is damaged"):
            again = cached(tmp_path / "cache", encoder=encoder).encode_images(photos, batch_size=4)
        torch.testing.assert_close(again.patches, first.patches, atol=5e-3, rtol=0)
        # One row is damaged, or the header and with it all of them.
        assert encoder.n_encoded == (11 if place < 0.1 else 1)
        assert not shard.exists()
        assert [problem for _, _, problem in verify_caches(tmp_path / "cache")] in ([""], [""] * 2)
        last = cached(tmp_path / "cache")
        last.encode_images(photos)
        assert last.n_encoded == 0

    def test_cut_short(self, tmp_path: Path, photos: list[Path]) -> None:
        cached(tmp_path / "cache").encode_images(photos)
        (shard,) = (tmp_path / "cache").glob("*/*.safetensors")
        shard.write_bytes(shard.read_bytes()[:-7])
        assert [bool(problem) for _, _, problem in verify_caches(tmp_path / "cache")] == [True]
        with pytest.warns(CacheWarning, match="encoded again"):
            assert cached(tmp_path / "cache").encode_images(photos) is not None


class TestUpkeep:
    def test_info_and_prune(self, tmp_path: Path, photos: list[Path]) -> None:
        folder = tmp_path / "cache"
        assert describe_caches(folder) == []
        for storage, some in (
            ("float16", photos[:4]),
            ("float16", photos[4:6]),
            ("int8", photos[:3]),
        ):
            cached(folder, storage).encode_images(some)
        infos = {info.encoder["storage"]: info for info in describe_caches(folder)}
        assert [(infos[s].shards, infos[s].images) for s in ("float16", "int8")] == [(2, 6), (1, 3)]
        files = sorted(folder.glob("*/*.safetensors"), key=lambda path: path.stat().st_size)
        assert sum(info.bytes for info in infos.values()) == sum(f.stat().st_size for f in files)
        now = time.time()
        for days, file in enumerate(files):
            os.utime(file, (now, now - 86_400 * days))
        part = infos["int8"].folder / ".x.safetensors.1.part"
        part.touch()
        os.utime(part, (1, 1))
        with pytest.raises(InputError, match="Say what to keep"):
            prune_caches(folder)
        assert prune_caches(folder, unused_days=1.5) == [files[2]]
        assert not part.exists()
        assert prune_caches(folder, most_bytes=files[0].stat().st_size) == [files[1]]
        assert prune_caches(folder, most_bytes=10**9) == []
        assert len(describe_caches(folder)) == 1  # an empty one goes altogether

    def test_used_shards_stay_longest(self, tmp_path: Path, photos: list[Path]) -> None:
        folder = tmp_path / "cache"
        for some in (photos[:3], photos[3:6]):
            cached(folder).encode_images(some)
        first, second = sorted(
            folder.glob("*/*.safetensors"), key=lambda path: path.stat().st_mtime
        )
        for file in (first, second):
            os.utime(file, (1, 1))
        cached(folder).encode_images(photos[:1])
        assert prune_caches(folder, unused_days=1) == [second]
        assert first.exists()
