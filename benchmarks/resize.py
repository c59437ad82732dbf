"""The two ways to resize a picture, side by side in one run.

    python benchmarks/resize.py [--side 224] [--rounds 7]

"fit" is a decoded picture to uint8 pixels on the canvas; "file" is that and decoding the JPEG. The
pictures are synthetic: smooth fields, hard edges, noise. Differences are in levels of 0..255.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import PIL
import torch
from PIL import Image

from piaa.images import Preprocessing, fit_pixels, open_image

from machine import describe, side_by_side, times_as_fast

SIZES = ((300, 400), (768, 1024), (1536, 2048), (3000, 4000), (4000, 3000))


def picture(rows: int, columns: int) -> Image.Image:
    rng = np.random.default_rng(0)
    field = Image.fromarray(rng.integers(0, 256, (rows // 60, columns // 60, 3), dtype=np.uint8))
    pixels = np.asarray(field.resize((columns, rows), Image.Resampling.BICUBIC)).astype(np.int16)
    pixels[rows // 3 : rows // 2, columns // 4 : columns // 2] = (240, 30, 60)
    pixels += rng.integers(-12, 13, pixels.shape, dtype=np.int16)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def ratios() -> dict[str, float]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    image, canvas = picture(1536, 2048), (224, 224)
    pillow, fast = Preprocessing(canvas), Preprocessing(canvas, resize="torch")
    gain = times_as_fast(lambda: fit_pixels(image, fast), lambda: fit_pixels(image, pillow))
    torch.set_num_threads(before)
    return {'read: resize="torch", 3 megapixels, against Pillow': gain}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    # One thread, as in each decoding thread of the reader: the others belong to the encoder.
    torch.set_num_threads(1)
    pillow = Preprocessing((options.side, options.side))
    fast = Preprocessing((options.side, options.side), resize="torch")

    print(f"Pillow {PIL.__version__}, {describe()}")
    print(f"center crop of {options.side} x {options.side}; best of {options.rounds} in ms")
    print(f"{'picture':>12} {'fit pillow':>11} {'torch':>7} {'ratio':>6}", end=" ")
    print(f"{'file pillow':>12} {'torch':>7} {'ratio':>6} {'max diff':>9} {'mean':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            path = Path(folder, "picture.jpg")
            picture(*size).save(path, quality=90)
            image = open_image(path)
            fit_times = side_by_side(
                lambda image=image: fit_pixels(image, pillow),
                lambda image=image: fit_pixels(image, fast),
                rounds=options.rounds,
            )
            file_times = side_by_side(
                lambda path=path: fit_pixels(open_image(path), pillow),
                lambda path=path: fit_pixels(open_image(path), fast),
                rounds=options.rounds,
            )
            exact, _ = fit_pixels(image, pillow)
            other, _ = fit_pixels(image, fast)
            difference = (exact.int() - other.int()).abs()
            a, b = (1000 * seconds for seconds in fit_times)
            c, d = (1000 * seconds for seconds in file_times)
            print(f"{size[0]:>5} x{size[1]:>5} {a:>11.2f} {b:>7.2f} {a / b:>6.2f}", end=" ")
            print(f"{c:>12.2f} {d:>7.2f} {c / d:>6.2f}", end=" ")
            print(f"{difference.max().item():>9} {difference.float().mean().item():>6.3f}")


if __name__ == "__main__":
    main()
