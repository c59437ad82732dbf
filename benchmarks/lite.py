"""The embedded encoder from file to scores: images a second, the share of each stage, and the ratio
to the bare network, which is the figure that holds on any machine.

    python benchmarks/lite.py [--name lite] [--photos FOLDER] [--count 200] [--size 320] [--batch 16]
                              [--precision int8]

Without --photos, JPEG files of 500 x 375 pixels are made. A stage is timed by itself; end to end,
pictures are decoded in threads while the network runs, so the whole is less than the sum, and it takes
turns with the bare network, so that both see the same machine. The encoder is
idle while it waits for the next batch; "decoding alone" is how fast batches come if nobody encodes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from piaa.encoders.base import ImageFeatures
from piaa.encoders.cores import in_parts
from piaa.encoders.lite import LITE_ENCODERS, LiteEncoder, load_lite
from piaa.encoders.lite.encoder import PICTURES_A_CORE
from piaa.images import fit_pixels, open_image, preprocess, read_batches

from machine import describe, in_turns, side_by_side, times_as_fast

CLASSES = 80


def make_photos(folder: Path, count: int) -> list[Path]:
    """Pictures with smooth regions and some texture, at the size and quality of VOC's files."""
    random = np.random.default_rng(0)
    paths = []
    for index in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = smooth + random.normal(0, 8, smooth.shape)
        path = folder / f"{index:04}.jpg"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(path)
    return paths


def seconds(run: Callable[[], object], rounds: int) -> float:
    (best,) = side_by_side(run, rounds=rounds)
    return best


def stages(encoder: LiteEncoder, paths: list[Path], batch: int, rounds: int) -> dict[str, float]:
    """Seconds an image of each stage by itself; the first three are of one thread."""
    view = encoder.spec.preprocessing
    few = paths[: 4 * batch]
    opened = [open_image(path) for path in few]
    pixels = torch.stack([preprocess(image, view)[0] for image in opened[:batch]])
    features = encoder.encode_pixels(pixels)
    decode, resize, prepare = side_by_side(
        lambda: [open_image(path) for path in few],
        lambda: [fit_pixels(image, view) for image in opened],
        lambda: [preprocess(image, view) for image in opened],
        rounds=rounds,
    )
    network, encode, classify = side_by_side(
        lambda: network_alone(encoder, pixels),
        lambda: encoder._encode(pixels),
        lambda: scores(features),
        rounds=3 * rounds,
    )
    return {
        "decode": decode / len(few),
        "resize": resize / len(few),
        "normalize": (prepare - resize) / len(few),
        "network": network / batch,
        "unit length": max(encode - network, 0.0) / batch,
        "classify": classify / batch,
    }


def network_alone(encoder: LiteEncoder, pixels: Tensor) -> None:
    """A picture a core, as the encoder runs it."""
    in_parts(encoder._network, pixels, each=PICTURES_A_CORE)


def scores(features: ImageFeatures) -> None:
    words = torch.ones(CLASSES, features.cls.shape[1])
    _ = features.cls @ words.T
    _ = (features.patches @ words.T).amax(1)


def end_to_end(
    encoder: LiteEncoder, paths: list[Path], batch: int, rounds: int
) -> tuple[float, float, float]:
    """Seconds an image from file to scores; its speed as a share of the bare network's, called with whole
    batches and two threads an operation; and of the network's over the cores, as the encoder runs it.
    They take turns over as many pictures."""
    rows, columns = encoder.spec.preprocessing.image_size
    pixels = torch.randn(batch, 3, rows, columns)
    paths = paths[: len(paths) // batch * batch]

    def whole() -> None:
        for part in encoder.stream_images(paths, batch_size=batch):
            scores(part)

    def repeated(run: Callable[[], object]) -> Callable[[], object]:
        return lambda: [run() for _ in range(len(paths) // batch)]

    spent, *networks = in_turns(
        whole,
        repeated(lambda: encoder._network(pixels)),
        repeated(lambda: network_alone(encoder, pixels)),
        rounds=rounds,
    )
    plain, best = (
        median(n / s for n, s in zip(network, spent, strict=True)) for network in networks
    )
    return median(spent) / len(paths), plain, best


def idle_share(encoder: LiteEncoder, paths: list[Path], batch: int) -> float:
    """Share of the time, after the first batch, that the encoder waits for the next one."""
    batches = read_batches(paths, encoder.spec.preprocessing, batch_size=batch)
    encoder._encode(next(batches).pixels)
    waited, start = 0.0, time.perf_counter()
    while True:
        asked = time.perf_counter()
        pixels = next(batches, None)
        waited += time.perf_counter() - asked
        if pixels is None:
            return waited / (time.perf_counter() - start)
        encoder._encode(pixels.pixels)


def decoding_alone(encoder: LiteEncoder, paths: list[Path], batch: int, rounds: int) -> float:
    """Seconds an image."""
    preprocessing = encoder.spec.preprocessing
    drain = lambda: deque(read_batches(paths, preprocessing, batch_size=batch), maxlen=0)  # noqa: E731
    return seconds(drain, rounds) / len(paths)


def ratios() -> dict[str, float]:
    """Shares of the bare network, and of the time that the encoder works."""
    found, pixels = {}, torch.zeros(16, 3, 320, 320)
    with tempfile.TemporaryDirectory() as folder:
        paths = make_photos(Path(folder), 160)
        for name in LITE_ENCODERS:
            encoder = load_lite(name)
            _, share, _ = end_to_end(encoder, paths, 16, 5)
            found[f"{name}: end to end, share of the bare network"] = share
            idle = min(idle_share(encoder, paths, 16) for _ in range(3))
            found[f"{name}: share of the time that the encoder works"] = 1 - idle
            rough = load_lite(name, precision="int8")
            found[f"{name}: int8 against float32"] = times_as_fast(
                lambda r=rough: network_alone(r, pixels),
                lambda e=encoder: network_alone(e, pixels),
                rounds=5,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--name", choices=[*LITE_ENCODERS, "both"], default="both")
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--resize", choices=["pillow", "torch"], default="torch")
    parser.add_argument("--precision", choices=["float32", "int8"], default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    print(describe())
    with tempfile.TemporaryDirectory() as folder:
        if options.photos:
            paths = sorted(options.photos.glob("*.jpg"))[: options.count]
        else:
            paths = make_photos(Path(folder), options.count)
        for name in LITE_ENCODERS if options.name == "both" else (options.name,):
            encoder = load_lite(
                name,
                image_size=options.size,
                resize=options.resize,
                precision=options.precision,
            )
            each = stages(encoder, paths, options.batch, options.rounds)
            whole, share, best = end_to_end(encoder, paths, options.batch, options.rounds)
            size = f"{options.size} px, batch {options.batch}, {options.precision}"
            print(f"\n{name}, {len(paths)} pictures, {size}")
            for stage, spent in each.items():
                part = spent / sum(each.values())
                print(f"  {stage:12}{1e3 * spent:8.2f} ms/image{100 * part:7.1f} %")
            print(f"  end to end  {1e3 * whole:8.2f} ms/image, {1 / whole:.1f} images/s")
            print(f"  {share:.2f} of the bare network's speed, {best:.2f} of it a picture a core")
            alone = decoding_alone(encoder, paths, options.batch, options.rounds)
            idle = min(idle_share(encoder, paths, options.batch) for _ in range(options.rounds))
            print(
                f"  decoding alone {1 / alone:.1f} images/s; the encoder is idle {100 * idle:.1f} %"
            )


if __name__ == "__main__":
    main()
