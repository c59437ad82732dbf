"""The processes that decode: the same pixels as in-process, and no harm from hostile pictures."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from servers import jpeg, png, wait_for

from fake_encoder import ColorEncoder, squares
from piaa import Tiles
from piaa.encoders.tiled import TiledEncoder
from piaa.images import Preprocessing, fit_pixels, open_image
from piaa.serve.decoder import Job, Refusal, lay_out, open_bytes
from piaa.serve.decoding import Decoded, DecoderPool
from piaa.serve.problems import ProblemError

VIEW = Preprocessing((48, 64), fit="pad")
MIB = 2**20


@pytest.fixture(scope="module")
def pool() -> Iterator[DecoderPool]:
    job = Job(VIEW, None, max_pixels=40_000_000, seconds=2.0, memory_bytes=100 * MIB)
    decoders = DecoderPool(job, workers=2)
    decoders.start()
    yield decoders
    decoders.close()


def decode(pool: DecoderPool, data: bytes, **options: int) -> Decoded:
    return asyncio.run(pool.decode(data, **options))


def refusal(pool: DecoderPool, data: bytes) -> tuple[str, str]:
    with pytest.raises(ProblemError) as caught:
        decode(pool, data)
    return caught.value.slug, caught.value.detail


def files() -> dict[str, bytes]:
    """Every format and mode that is read, some turned by EXIF."""
    image = squares(3, ["red", "blue"], size=(40, 90))
    turned = Image.Exif()
    turned[0x0112] = 6
    made = {"jpeg": jpeg(image), "turned": jpeg(image, exif=turned)}
    for name in ("PNG", "WEBP", "GIF", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM"):
        file = io.BytesIO()
        image.save(file, name)
        made[name] = file.getvalue()
    for mode in ("RGBA", "LA", "P", "1", "L", "I;16"):
        grey = image.convert("L").convert("I")  # Pillow reaches 16 bits by way of 32
        made[mode] = png(grey.convert(mode) if mode == "I;16" else image.convert(mode))
    for compression in ("tiff_lzw", "jpeg"):
        file = io.BytesIO()
        image.convert("CMYK").save(file, "TIFF", compression=compression)
        made[compression] = file.getvalue()
    return made


@pytest.mark.parametrize("name", files())
def test_pixels_are_those_of_the_library(pool: DecoderPool, name: str, tmp_path: Path) -> None:
    data = files()[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    image = open_image(path)
    pixels, placement = fit_pixels(image, VIEW)
    decoded = decode(pool, data, preview_side=50)
    assert torch.equal(decoded.pixels[0], pixels)
    assert decoded.placements == (placement,)
    assert decoded.size == (image.height, image.width)
    image.thumbnail((50, 50), Image.Resampling.BICUBIC)
    assert decoded.preview is not None
    assert np.array_equal(np.asarray(decoded.preview), np.asarray(image))


@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
def test_windows_are_those_of_the_tiled_encoder(fit: str) -> None:
    tiled = TiledEncoder(ColorEncoder(fit=fit), Tiles(2, 3, overlap=0.4))  # type: ignore[arg-type]
    image = squares(5, ["green", "red"], size=(70, 130))
    expected = tiled._read(image)
    canvases = lay_out(image, tiled.spec.preprocessing, tiled.tiles)
    assert canvases.placements == expected.placements
    assert torch.equal(canvases.pixels.float() / 255, expected.pixels)


def test_damaged_files_are_refused_with_a_reason(pool: DecoderPool) -> None:
    whole = jpeg(squares(1, ["red"], size=(300, 300)))
    assert refusal(pool, b"")[0] == "not-a-picture"
    assert "empty" in refusal(pool, b"")[1]
    slug, detail = refusal(pool, whole[: len(whole) // 2])
    assert slug == "not-a-picture"
    assert "truncated" in detail
    assert "not a picture" in refusal(pool, b"<svg xmlns='http://www.w3.org/2000/svg'/>")[1]
    assert decode(pool, whole).size == (300, 300)


def bomb(side: int, *, claimed: int | None = None) -> bytes:
    """A PNG of side x side black pixels in a few kilobytes; its header may claim another side."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", claimed or side, claimed or side, 8, 2, 0, 0, 0)
    packer = zlib.compressobj(9)
    row = b"\0" * (1 + 3 * side)
    body = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_bombs_are_refused_from_their_header_alone(pool: DecoderPool) -> None:
    slug, detail = refusal(pool, bomb(10, claimed=200_000))
    assert slug == "too-many-pixels"
    assert "200,000 x 200,000" in detail
    with pytest.raises(Refusal, match="too-many-pixels"):
        open_bytes(bomb(100), max_pixels=9_999)
    assert open_bytes(bomb(100), max_pixels=10_000).size == (100, 100)


def test_memory_is_limited_and_the_next_picture_is_fine(pool: DecoderPool) -> None:
    before = pool.replaced
    slug, detail = refusal(pool, bomb(6_000))  # 108 MB of pixels
    assert slug == "decoding-stopped"
    assert "memory" in detail
    assert pool.replaced == before + 1
    assert decode(pool, bomb(10)).size == (10, 10)


def test_workers_can_open_nothing(pool: DecoderPool) -> None:
    for worker in list(pool._idle):
        process = Path(f"/proc/{worker._pid}")
        open_files = list((process / "fd").iterdir())
        limits = (process / "limits").read_text()
        assert f"Max open files            {len(open_files)} " in limits
        assert "Max file size             0 " in limits
        assert "Max core file size        0 " in limits


def test_killed_workers_are_replaced(pool: DecoderPool) -> None:
    decode(pool, bomb(10))
    kill_workers(pool)
    assert decode(pool, bomb(11)).size == (11, 11)


def test_a_killed_parent_is_replaced_and_a_decoder_that_hangs_killed(pool: DecoderPool) -> None:
    kill_workers(pool)
    assert pool._nursery is not None
    pool._nursery._process.kill()
    pool.job = replace(pool.job, seconds=0.15, memory_bytes=2048 * MIB, max_pixels=100_000_000)
    before = pool.replaced
    slug, detail = refusal(pool, bomb(8_000))
    assert slug == "decoding-stopped"
    assert "0.15 seconds" in detail
    assert pool.replaced == before + 1
    assert decode(pool, bomb(12)).size == (12, 12)


def test_workers_end_with_the_pool(pool: DecoderPool) -> None:
    pids = [worker._pid for worker in pool._idle]
    assert pids
    pool.close()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def kill_workers(pool: DecoderPool) -> None:
    for worker in list(pool._idle):
        os.kill(worker._pid, signal.SIGKILL)
    wait_for(lambda: not any(worker.alive() for worker in list(pool._idle)))
