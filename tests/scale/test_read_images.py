"""Pictures read by one process for another: bits, names and errors are those of reading them oneself."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from shaky_encoder import ShakyEncoder, save_pictures
from test_feature_cache import cached, same

from piaa.encoders.base import Encoder, ImageFeatures
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import ImageError
from piaa.images import Preprocessing
from piaa.scale.fed_encoder import fed, reader_of
from piaa.scale.read_images import ReadImage, Row, unpacked
from piaa.scale.sources import find_parts
from piaa.scale.unit_images import UnitImages
from piaa.scale.units import Readable, Unit
from piaa.scale.watching import Tally


class ReadElsewhere:
    """A unit whose pictures come as rows of bytes, as they do from another machine."""

    def __init__(self, unit: Unit, encoder: Encoder, watch: Tally) -> None:
        self.rows: list[Row] = [(told, bytes(data)) for told, data in reader_of(encoder).rows(unit)]
        self._watch = watch

    def images(self, on_broken):
        return unpacked(self.rows, on_broken, self._watch.spend)


def encoded(
    unit: Readable, encoder: Encoder, watch: Tally
) -> tuple[list[ImageFeatures], list[str | None], list[tuple[str, str]]]:
    images = UnitImages(unit, watch)
    batches = list(images.batches(encoder, batch_size=4))
    return (
        [features for features, _ in batches],
        [name for _, names in batches for name in names],
        images.skipped,
    )


def check(folder: Path, here: Encoder, there: Encoder) -> Tally:
    unit, watch = Unit(0, tuple(find_parts([folder]))), Tally(None, 1)
    read = ReadElsewhere(unit, there, watch)
    found, names, skipped = encoded(read, fed(there), watch)
    batches, expected_names, expected_skipped = encoded(unit, here, Tally(None, 1))
    assert [len(features) for features in found] == [len(features) for features in batches]
    assert all(same(*pair) for pair in zip(found, batches, strict=True))
    assert names == expected_names
    assert sorted(skipped) == sorted(expected_skipped)
    return watch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of all shapes, some turned, some bad, and a damaged archive."""
    folder = tmp_path / "photos"
    save_pictures(folder, 3)
    rng = np.random.default_rng(0)
    for number, (rows, columns) in enumerate(
        [(64, 64), (1, 1), (1, 300), (2000, 3), (65, 64), (63, 200), (97, 31), (480, 640)]
    ):
        pixels = rng.integers(0, 256, (rows, columns, 3), dtype=np.uint8)
        exif = Image.Exif()
        exif[0x0112] = 1 + number
        Image.fromarray(pixels).save(folder / f"{number}.jpg", exif=exif)
    Image.new("RGBA", (30, 40), (255, 0, 0, 100)).save(folder / "clear.png")
    (folder / "empty.jpg").touch()
    (folder / "no.jpg").write_bytes(b"no picture")
    return folder


class ListedEncoder(ShakyEncoder):
    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.spec = replace(self.spec, preprocessing=preprocessing)


@pytest.mark.parametrize("resize", ["pillow", "torch"])
@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
@pytest.mark.parametrize("canvas", [(64, 64), (32, 96)])
def test_the_same_bits(folder: Path, fit: str, resize: str, canvas: tuple[int, int]) -> None:
    encoder = ListedEncoder(Preprocessing(canvas, fit=fit, resize=resize))
    watch = check(folder, encoder, encoder)
    assert watch.stages["read"].images == 14
    assert watch.stages["read"].seconds > 0


def test_what_travels_is_small(folder: Path) -> None:
    read = ReadElsewhere(Unit(0, tuple(find_parts([folder]))), ShakyEncoder(), Tally(None, 1))
    assert max(len(data) for _, data in read.rows) <= 3 * 64 * 64 + 16


def test_tiles_are_cut_from_whole_pictures(folder: Path) -> None:
    check(folder, TiledEncoder(ShakyEncoder()), TiledEncoder(ShakyEncoder()))


def test_archives(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    data = [path.read_bytes() for path in save_pictures(tmp_path / "plain", 3)]
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for number, picture in enumerate(data):
            member = tarfile.TarInfo(f"{number}.png")
            member.size = len(picture)
            archive.addfile(member, io.BytesIO(picture))
    whole = content.getvalue()
    for name, length in (("a.tar", len(whole)), ("b.tar", 5000), ("c.tar", 100)):
        (tmp_path / name).write_bytes(whole[:length])
    unit = Unit(0, tuple(find_parts([tmp_path / f"{name}.tar" for name in "abc"])))
    read = ReadElsewhere(unit, ShakyEncoder(), Tally(None, 1))
    found = encoded(read, fed(ShakyEncoder()), Tally(None, 1))
    expected = encoded(unit, ShakyEncoder(), Tally(None, 1))
    assert found[1:] == expected[1:]
    assert len(found[1]) >= 3
    assert len(found[2]) == 2


class TestKept:
    def test_the_cache_is_that_of_one_process(self, tmp_path: Path, folder: Path) -> None:
        check(folder, cached(tmp_path / "one"), cached(tmp_path / "other"))
        # Known by the bytes of the files, whoever has read them.
        again = cached(tmp_path / "other")
        check(folder, again, cached(tmp_path / "other"))
        assert again.n_encoded == 0

    def test_what_is_known_is_not_decoded(self, tmp_path: Path) -> None:
        folder = tmp_path / "photos"
        paths = save_pictures(folder, 5)
        cached(tmp_path / "cache").encode_images(paths[:3])
        encoder = cached(tmp_path / "cache")
        unit = Unit(0, tuple(find_parts([folder])))
        read = ReadElsewhere(unit, encoder, Tally(None, 1))
        assert [data == path.read_bytes() for (_, data), path in zip(read.rows, paths, strict=True)] == [
            True, True, True, False, False,
        ]  # fmt: skip
        # Gone since: it is encoded from the bytes that came along.
        for shard in encoder.cache.folder.glob("*.safetensors"):
            shard.unlink()
        gone = cached(tmp_path / "cache")
        found, _, _ = encoded(read, fed(gone), Tally(None, 1))
        plain = list(ShakyEncoder().stream_images(paths, batch_size=4))
        assert [f.placements for f in found] == [f.placements for f in plain]
        for one, other in zip(found, plain, strict=True):
            assert torch.equal(one.cls, other.cls)


def test_errors_without_anybody_to_tell(tmp_path: Path) -> None:
    encoder = fed(ShakyEncoder())
    with pytest.raises(ImageError, match="whatever"):
        list(encoder.stream_images([ReadImage("a", lambda: fail("whatever"))]))


def fail(reason: str) -> bytes:
    raise ImageError(reason)
