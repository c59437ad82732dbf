"""Synthetic pictures for the tests of this folder."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from PIL import Image


def photograph(rows: int, columns: int, seed: int = 0) -> Image.Image:
    """Smooth color fields, hard edges and sensor noise: what resizing meets in photographs."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (max(2, rows // 60), max(2, columns // 60), 3), dtype=np.uint8)
    field = Image.fromarray(coarse).resize((columns, rows), Image.Resampling.BICUBIC)
    pixels = np.asarray(field).astype(np.int64)
    for _ in range(6):
        top, left = rng.integers(0, rows), rng.integers(0, columns)
        pixels[top : top + rows // 3, left : left + columns // 4] = rng.integers(0, 256, 3)
    pixels += rng.integers(-12, 13, pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def png_bytes(
    width: int, height: int, depth: int, color_type: int, data: bytes, transparency: bytes = b""
) -> bytes:
    """A PNG written chunk by chunk, for what Pillow cannot write; `data` without filter bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    stride = len(data) // height
    lines = b"".join(b"\0" + data[i * stride : (i + 1) * stride] for i in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0))
        + (chunk(b"tRNS", transparency) if transparency else b"")
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def pixels(image: Image.Image) -> np.ndarray:
    assert image.mode == "RGB"
    return np.asarray(image).astype(int)


def grey_rgb(levels: np.ndarray) -> np.ndarray:
    return np.repeat(levels[..., None].astype(int), 3, axis=-1)


def over_white(rgb: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    share = alpha[..., None] / 255
    return rgb * share + 255 * (1 - share)
