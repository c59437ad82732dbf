"""The paper's method and its rivals in one run: forward passes, seconds an image, mAP.

    python benchmarks/rivals.py --root DEVKIT [--limit 500] [--encoder lite]
    python benchmarks/rivals.py --root DEVKIT --encoder ViT-B-16       # with CLIP's weights at hand

First the time of all methods on a transformer of ViT-B/16 size with random weights: what a pass costs
does not depend on what the weights know. TagCLIP's cost depends on how many classes it finds, so its
native pass and what each class adds are measured apart. Then time and mAP with the encoder: methods
that learn do so from `trainval` without its labels, all are measured on `test`. Features are encoded
once and serve every method that works from them; their time is counted to each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import normalize

import piaa
from piaa.baselines import list_methods, make_method
from piaa.baselines.refinement import dual_mask_refine
from piaa.baselines.tagclip import TagClip
from piaa.encoders.base import ImageFeatures
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.synthetic import synthetic_checkpoint
from piaa.evaluation.metrics import mean_average_precision
from voc import NAMES, read_split

from machine import describe, side_by_side

CLASSES = list(NAMES.values())


def timed(run: Callable[[], object]) -> tuple[object, float]:
    start = time.perf_counter()
    result = run()
    return result, time.perf_counter() - start


def random_clip() -> ClipEncoder:
    """ViT-B/16 in size, weights drawn at random."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.safetensors"
        save_file(synthetic_checkpoint(text_depth=1), path)
        return piaa.load_encoder(weights=path, activation="quick_gelu", device="cpu")


def encoded(encoder: piaa.Encoder, paths: list[Path]) -> tuple[ImageFeatures, float]:
    """Features, and seconds an image from file to features."""
    encoder.encode_images(paths[:2])  # threads, caches and lazily made graphs
    features, seconds = timed(lambda: encoder.encode_images(paths))
    return features, seconds / len(paths)


def batches(features: ImageFeatures, size: int = 64) -> list[ImageFeatures]:
    return [features[start : start + size] for start in range(0, len(features), size)]


def row(name: str, seconds: float, precision: str, passes: str) -> str:
    return f"{name:22}{seconds:9.3f}{precision:>8}   {passes}"


HEADER = f"{'':22}{'s/image':>9}{'mAP':>8}   forward passes an image"


def compare(encoder: piaa.Encoder, learn: list[Path], test: list[Path], labels: Tensor) -> None:
    """Time and mAP of every method the encoder can serve."""
    print(f"\n{encoder}\n{len(learn)} images to learn from, {len(test)} to test on")
    unlabelled, _ = encoded(encoder, learn)
    features, each = encoded(encoder, test)
    print(HEADER)
    for name in list_methods():
        if name == "tagclip" and not isinstance(encoder, ClipEncoder):
            print(f"{name:22}{'':17}   not run: it needs the attention maps of a CLIP transformer")
            continue
        method = make_method(name, encoder, CLASSES)
        if method.learns:
            method.fit(batches(unlabelled))
        images = test if method.needs_pictures else batches(features)
        scores, seconds = timed(lambda: method.scores(images))  # noqa: B023 (called at once)
        seconds = seconds / len(test) + (0 if method.needs_pictures else each)
        precision = f"{100 * mean_average_precision(scores, labels):.2f}"
        print(row(name, seconds, precision, method.forward_passes), flush=True)


def clock(encoder: ClipEncoder, paths: list[Path], n_tagclip: int, rounds: int) -> None:
    """Time alone, with weights that know nothing."""
    print(f"\n{encoder}\nrandom weights, for time alone; {len(paths)} images, best of {rounds}")
    features, _ = encoded(encoder, paths)
    methods = [
        make_method("cls", encoder, CLASSES),
        make_method("patch", encoder, CLASSES),
        make_method("sparc", encoder, CLASSES, compounds="all-pairs"),
        make_method("piaa", encoder, CLASSES),
    ]
    # Random weights see nearly one thing everywhere, of which nothing can be learnt: noise will do.
    noise = [normalize(torch.randn(x.shape), dim=-1) for x in (features.cls, features.patches)]
    methods[-1].fit(ImageFeatures(*noise, features.grid))
    # No class is above the whole range of scores, and all but the least are above its start.
    some = paths[:n_tagclip]
    native, everything = (TagClip(encoder, CLASSES, level=level) for level in (1.0, 0.0))
    found = sum(len(everything.tag(path).candidates) for path in some)
    encoding, bare, full, *scoring = side_by_side(
        lambda: encoder.encode_images(paths),
        lambda: native.scores(some),
        lambda: everything.scores(some),
        *(lambda method=method: method.scores(batches(features)) for method in methods),
        rounds=rounds,
    )
    print(HEADER)
    for method, seconds in zip(methods, scoring, strict=True):
        total = (encoding + seconds) / len(paths)
        print(row(method.name, total, "", method.forward_passes))
    per_class, bare = (full - bare) / found, bare / len(some)
    for n in (1, 5):
        costs = bare + n * per_class
        passes = f"1 at native resolution + {n}, {costs / total:.1f} times the time of piaa"
        print(row(f"tagclip, {n} found", costs, "", passes))
    print(f"TagCLIP's native pass takes {bare:.3f} s, each class found {per_class:.3f} s more")
    refinement(rounds)


def refinement(rounds: int) -> None:
    """DMAR for all classes at once, against the same class by class."""
    generator = torch.Generator().manual_seed(0)
    grid, n_classes = (24, 32), 103  # 500 x 375 pixels; COCO's classes with the background words
    n_patches = grid[0] * grid[1]
    coarse = torch.randn(n_patches, n_classes, generator=generator).softmax(dim=1)
    affinity = torch.rand(n_patches, n_patches, generator=generator)

    def class_by_class() -> Tensor:
        columns = coarse.split(1, dim=1)
        return torch.cat([dual_mask_refine(column, affinity, grid) for column in columns], dim=1)

    apart = (class_by_class() - dual_mask_refine(coarse, affinity, grid)).abs().max()
    one, many = side_by_side(
        lambda: dual_mask_refine(coarse, affinity, grid), class_by_class, rounds=rounds
    )
    print(
        f"TagCLIP's refinement of {n_patches} patches, {n_classes} classes: {1e3 * one:.1f} ms at once, "
        f"{1e3 * many:.1f} ms class by class ({many / one:.1f} times); difference {apart:.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True, help="folder of a VOC devkit")
    parser.add_argument("--limit", type=int, help="so many images of each split only")
    parser.add_argument("--encoder", default="lite")
    parser.add_argument("--weights")
    parser.add_argument("--time-images", type=int, default=24, help="for the random weights")
    parser.add_argument("--tagclip-images", type=int, default=2, help="of those, for TagCLIP")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()

    learn, _ = read_split(options.root, "trainval", options.limit)
    test, labels = read_split(options.root, "test", options.limit)
    print(describe())
    warnings.filterwarnings("ignore", category=UserWarning)  # classes the first images do not show
    clock(random_clip(), test[: options.time_images], options.tagclip_images, options.rounds)
    name = None if options.weights else options.encoder
    compare(piaa.load_encoder(name, weights=options.weights), learn, test, labels)


if __name__ == "__main__":
    main()
