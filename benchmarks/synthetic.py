"""The default against its text-only branches and the published presets, on synthetic worlds.

    python benchmarks/synthetic.py [--seeds N] [--first SEED] [--classes 5 20 80] [--text 0.75 0.45 0.3]
        [--noise 0.55]
    python benchmarks/synthetic.py --curve [--sizes 20 50 100 300]
    python benchmarks/synthetic.py --absent
    python benchmarks/synthetic.py --names --seeds 600

Worlds are those of tests/worlds.py: 300 images to learn from and 200 to test on, with a strong, a weak and
a useless global vector each. A row is of one kind: mAP of the default, of the better text-only branch and of
the best preset in each world, all of them means; then how many worlds end more than 0.15 below that branch
and below that preset, and by how much the worst does. Which preset is the best one is seen in hindsight.
With --curve the default has seen no image and then so many; then how many worlds are at any of these more
than 0.5 below where they were with fewer, and by how much the worst is; and the same for those below where
they were before any.
With --absent half of the classes are in none of 600 images to learn from: their mAP on 400 others before and
after, and how many the report names. With --names no image is drawn: in how many worlds do the texts, all
together, fit the true places of the classes best in an order that is not theirs? There no rule that goes by
the text can be right, and one that is wrong may be ahead by chance.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from piaa import paa, pvcl
from piaa.classes.class_list import ClassList
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.evaluation.metrics import mean_average_precision
from piaa.fitting.fit_report import FitReport
from piaa.fitting.fitted import Fitted
from piaa.fitting.gathered import Gathered
from piaa.scoring import Scorer, cls_branch, text_branch

from machine import describe

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from worlds import World, class_places, varied_world

FIT, TEST = 300, 200
GLOBALS = ((0.6, 0.3), (0.3, 0.6), (0.0, 0.3))  # strength and noise
SIZES = (20, 50, 100, FIT)  # of a curve
TEXT_SCALE = 100.0  # of CLIP's text, which a prediction before any fit goes by
LABELS = ((1, 1), (1, 3), (2, 4), (4, 8))
PRESETS = ("voc", "coco", "nus")
NOTHING = 0.15  # mAP that is no difference


def features(world: World, images: slice) -> ImageFeatures:
    patches = world.patches[images]
    return ImageFeatures(world.cls[images], patches, (1, patches.shape[1]))


def percent(scores: Tensor, labels: Tensor) -> float:
    """mAP over the classes that the images hold."""
    seen = labels.any(0)
    return 100 * mean_average_precision(scores[:, seen], labels[:, seen].numpy())


def fit(world: World, n_fit: int) -> Fitted:
    gathered = Gathered(world.text, Config.auto())
    gathered.add(features(world, slice(n_fit)))
    return gathered.finish()


def published(world: World, seen: ImageFeatures, preset: str) -> Tensor:
    """Scores (n, C) of images by the published constants and steps."""
    config = Config.reference(preset)
    learned = pvcl.learn([world.patches[:FIT]], world.text, config)
    return paa.aggregate(seen.patches, seen.cls, world.text, learned, config).fused


def measure(world: World) -> tuple[float, float, float]:
    """mAP in per cent of the default, of the better text-only branch, and of the best preset."""
    seen, labels = features(world, slice(FIT, None)), world.labels[FIT:]
    scorer = fit(world, FIT).scorer
    branches = (
        text_branch(seen.patches, world.text, scorer.scales.text),
        cls_branch(seen.cls, world.text, scorer.scales.cls),
    )
    by_preset = (percent(published(world, seen, preset), labels) for preset in PRESETS)
    by_text = max(percent(branch, labels) for branch in branches)
    return percent(scorer.evidence(seen), labels), by_text, max(by_preset)


def measure_curve(world: World, sizes: Sequence[int]) -> list[float]:
    """mAP in per cent before any fit and from so many images each."""
    most = max(sizes)
    seen, labels = features(world, slice(most, None)), world.labels[most:]
    scorers = [Scorer.zero_shot(world.text, Config.auto(), TEXT_SCALE)]
    scorers += [fit(world, n).scorer for n in sizes]
    return [percent(scorer.evidence(seen), labels) for scorer in scorers]


def measure_absent(world: World, n_fit: int, n_present: int) -> tuple[float, float, int, int]:
    """Of classes from `n_present` on: mAP by text and learnt; how many of them, and of others, are named."""
    fitted = fit(world, n_fit)
    seen, labels = features(world, slice(n_fit, None)), world.labels[n_fit:]
    scales = fitted.scorer.scales
    by_text = text_branch(seen.patches, world.text, scales.text)
    by_text += cls_branch(seen.cls, world.text, scales.cls)
    names = tuple(f"class {index}" for index in range(len(world.text)))
    report = FitReport.of(fitted, ClassList(names, tuple((name,) for name in names)))
    named = [bool(row.warning) for row in report.classes]
    before, after = (
        percent(scores[:, n_present:], labels[:, n_present:])
        for scores in (by_text, fitted.scorer.evidence(seen))
    )
    return before, after, sum(named[n_present:]), sum(named[:n_present])


def kinds(classes: list[int], texts: list[float]) -> Iterator[tuple[int, float, tuple[int, int]]]:
    for n_classes, text, labels in product(classes, texts, LABELS):
        if labels[1] < n_classes:
            yield n_classes, text, labels


def below(rows: list[Sequence[float]], column: int, ours: int = 0) -> str:
    return count_falls([row[column] - row[ours] for row in rows], NOTHING)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--classes", type=int, nargs="+", default=[5, 20, 80])
    parser.add_argument("--text", type=float, nargs="+", default=[0.75, 0.45, 0.3])
    parser.add_argument("--noise", type=float, default=0.55, help="of single patches")
    parser.add_argument("--names", action="store_true", help="worlds whose texts are mixed up")
    parser.add_argument("--curve", action="store_true", help="from no images to all")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="of a curve")
    parser.add_argument("--absent", action="store_true", help="of 20 classes, 10 not to learn from")
    options = parser.parse_args()
    print(describe())
    if options.absent:
        print_absent(range(options.first, options.first + options.seeds))
        return
    if options.names:
        print_names(options.classes, options.text, options.seeds)
        return
    if options.curve:
        sizes = sorted(options.sizes)
        head = "".join(f"{n:7}" for n in (0, *sizes))
        print(f"\nclasses  text labels worlds{head}   dips, worst   below start, worst")
        print_kinds(options, sizes[-1], partial(measure_curve, sizes=sizes), curve_row)
        return
    print(
        "\nclasses  text labels worlds   auto   text preset   below text, worst   below preset, worst"
    )
    print_kinds(options, FIT, measure, table_row)


def print_kinds(
    options: argparse.Namespace,
    n_fit: int,
    measured: Callable[[World], Sequence[float]],
    row_of: Callable[[str, list[Sequence[float]]], str],
) -> None:
    every = []
    for n_classes, text, labels in kinds(options.classes, options.text):
        rows = []
        for seed, (strength, noise) in product(range(options.seeds), GLOBALS):
            world = varied_world(
                options.first + seed,
                n_fit + TEST,
                n_classes=n_classes,
                text=text,
                cls=strength,
                cls_noise=noise,
                labels=labels,
                patch_noise=options.noise,
            )
            rows.append(measured(world))
        every += rows
        name = f"{n_classes:7} {text:5} {f'{labels[0]}-{labels[1]}':>6}"
        print(row_of(name, rows), flush=True)
    print(row_of(f"{'all':20}", every))


def print_absent(seeds: range) -> None:
    print("\ntext seed   zero-shot  learnt   absent named  present named")
    for text, seed in product((0.75, 0.5, 0.4), seeds):
        world = varied_world(seed, 1000, text=text, absent=10, n_without=600)
        before, after, absent, present = measure_absent(world, 600, 10)
        print(f"{text:4} {seed:4} {before:11.1f} {after:7.1f} {absent:14} {present:14}", flush=True)


def print_names(classes: list[int], texts: list[float], n_worlds: int) -> None:
    print("\nclasses  text   worlds with texts mixed up")
    for n_classes, text in product(classes, texts):
        mixed_up = 0
        for seed in range(n_worlds):
            prototypes, _, centers = class_places(np.random.RandomState(seed), n_classes, 64, text)
            place, name = linear_sum_assignment(centers @ prototypes.T, maximize=True)
            mixed_up += bool((place != name).any())
        print(f"{n_classes:7} {text:5} {mixed_up / n_worlds:12.1%}")


def curve_row(name: str, rows: list[Sequence[float]]) -> str:
    means = " ".join(f"{fmean(column):6.1f}" for column in zip(*rows, strict=True))
    dips = count_falls([deepest_fall(row) for row in rows])
    below = count_falls([row[0] - min(row[1:]) for row in rows])
    return f"{name} {len(rows):6} {means}   {dips}          {below}"


def deepest_fall(curve: Sequence[float]) -> float:
    """By how much any point is below the highest before it; negative where all rise."""
    return max(max(curve[:i]) - curve[i] for i in range(1, len(curve)))


def count_falls(falls: list[float], more_than: float = 0.5) -> str:
    return f"{sum(fall > more_than for fall in falls):4} {max(0.0, *falls):6.1f}"


def table_row(name: str, rows: list[Sequence[float]]) -> str:
    means = " ".join(f"{fmean(column):6.1f}" for column in zip(*rows, strict=True))
    return f"{name} {len(rows):6} {means}         {below(rows, 1)}           {below(rows, 2)}"


if __name__ == "__main__":
    with torch.inference_mode():
        main()
