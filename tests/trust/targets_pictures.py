"""Fuzz targets: pictures in all formats."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from mutations import mutate
from PIL import Image
from target import Target

from piaa.images import StoredImage, open_image


def images(_: Path) -> Target:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((40, 30), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    exif[0x0112] = 6
    written: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (picture, "JPEG", {"exif": exif}),
        (picture, "JPEG", {"progressive": True}),
        (picture.convert("CMYK"), "JPEG", {}),
        (picture, "PNG", {"exif": exif}),
        (picture.convert("P"), "PNG", {"transparency": 3}),
        (picture.convert("RGBA"), "PNG", {}),
        (Image.fromarray(rng.integers(0, 65536, (9, 7), dtype=np.uint16)), "PNG", {}),
        (picture, "WEBP", {"exif": exif}),
        (picture, "WEBP", {"lossless": True}),
        (picture, "GIF", {"save_all": True, "append_images": [picture.rotate(90)]}),
        (picture, "TIFF", {}),
        (picture, "TIFF", {"compression": "tiff_lzw"}),
        (picture, "TIFF", {"compression": "jpeg"}),
        (picture.convert("1"), "TIFF", {"compression": "group4"}),
        (picture, "BMP", {}),
        (picture, "AVIF", {}),
        (picture, "JPEG2000", {}),
        (picture, "PPM", {}),
    ]
    seeds = []
    for image, kind, options in written:
        file = io.BytesIO()
        image.save(file, kind, **options)
        seeds.append(file.getvalue())

    def accepts(data: bytes, folder: Path) -> bool:
        opened = open_image(StoredImage("stranger", lambda: data))
        assert opened.mode == "RGB"
        assert opened.width * opened.height > 0
        return True

    def change(data: bytes, rng: Random) -> bytes:
        changed = mutate(data, rng, seeds)
        return with_right_checksums(changed) if rng.random() < 0.7 else changed

    return Target(seeds, accepts, change)


def with_right_checksums(png: bytes) -> bytes:
    """The chunks of a PNG with checksums that match; else hardly any damage would reach its decoder."""
    made, place = png[:8], 8
    while png.startswith(b"\x89PNG") and place + 12 <= len(png):
        end = place + 8 + int.from_bytes(png[place : place + 4], "big")
        body = png[place + 4 : end]
        made += png[place : place + 4] + body + zlib.crc32(body).to_bytes(4, "big")
        place = end + 4
    return made + png[place:] if png.startswith(b"\x89PNG") else png
