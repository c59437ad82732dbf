"""How well can classes be told whose names are known by a weak text alone? A rule that knows all else.

    python benchmarks/name_limit.py [--seeds N] [--first SEED] [--classes 5 20] [--text 0.45 0.3]
        [--sizes 20 100 1000]
    python benchmarks/name_limit.py --beside [--seeds N] [--first SEED] [--classes 5 8 20] [--text 0.3]

It is told what no recognizer is: which patches are of one class, how the worlds of tests/worlds.py are made,
and what every test image holds. Only names it has to find out by the texts: from the patches of so many
images it has the mean of each class, goes through all orders of names by how likely they are, and ranks the
test images of a name by how likely they hold its class, and by chance where that is equal. No rule is known
that does better on average over such worlds.

A row is of one kind: mAP from so many images and from endlessly many ("all"), means of the worlds; then how
many worlds are at any of these more than 0.5 below where they were with fewer images, and by how much the
worst is. More than this rule reaches is hardly to be asked of a recognizer, nor that it dips less. At most
20 classes.
With --beside the default learns from 300 images of the same worlds, with a strong, a weak and a useless
global vector each: mAP of the default ("auto"), of this rule, of the better text-only branch and of the best
preset in each world, all of them means; then how many worlds each of the two ends more than 0.15 below that
branch and below that preset, and by how much the worst does.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cache
from itertools import product
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from synthetic import FIT, GLOBALS, TEST, below, count_falls, deepest_fall, kinds, measure, percent
from worlds import class_places, varied_world

from machine import describe

TIES = 5  # orders of equal scores
MOST_CLASSES = 20  # beyond, the sets of classes are too many to go through
DIM, N_PATCHES, PATCH_NOISE = 64, 36, 0.55  # of the worlds, as tests/worlds.py draws them


@cache
def steps(n_classes: int) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """By size of a set of classes and class to add: the sets of that size without it, and those with it."""
    sets = np.arange(1 << n_classes, dtype=np.int32)
    sizes = sum((sets >> place) & 1 for place in range(n_classes))
    found = []
    for size in range(n_classes):
        some = sets[sizes == size]
        without = [some[(some >> place) & 1 == 0] for place in range(n_classes)]
        found.append([(part, part | 1 << place) for place, part in enumerate(without)])
    return found


def name_odds(nats: np.ndarray) -> np.ndarray:
    """How likely each name (rows) is each class's (columns) among all orders, whose nats are sums of pairs'.

    Names take classes one after the other, and only the set of those taken so far counts for the rest: sums
    over all n! orders come from the 2^n sets.

    Args:
        nats: (n, n).
    """
    weights = np.exp(nats - nats.max(axis=1, keepdims=True))
    n = len(weights)
    before, after = np.zeros(1 << n), np.zeros(1 << n)
    before[0] = after[-1] = 1
    for name, places in enumerate(steps(n)):
        for place, (without, with_it) in enumerate(places):
            before[with_it] += before[without] * weights[name, place]
    odds = np.empty((n, n))
    for name, places in reversed(list(enumerate(steps(n)))):
        for place, (without, with_it) in enumerate(places):
            taken = weights[name, place] * after[with_it]
            odds[name, place] = before[without] @ taken
            after[without] += taken
    return odds / before[-1]


def nats_of(
    prototypes: np.ndarray, centers: np.ndarray, counts: np.ndarray, *, text: float
) -> np.ndarray:
    """Log-likelihood (names, classes) of each class's mean (C, D) of so many patches (C,) being each name's.

    Less what is the same for all names. As tests/worlds.py draws them; a class without a patch tells nothing.
    """
    with np.errstate(divide="ignore"):
        variance = 0.45**2 + 0.75**2 - text**2 + PATCH_NOISE**2 / counts
    return DIM * text / variance * (prototypes @ centers.T)


def seen_centers(
    centers: np.ndarray, labels: np.ndarray, sizes: Sequence[int], rng: np.random.RandomState
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Means (C, D) and counts (C,) of each class's patches in the first so many images, by labels (n, C)."""
    n_classes, dim = centers.shape
    sums, counts, found = np.zeros((n_classes, dim)), np.zeros(n_classes), []
    for image, row in enumerate(labels[: max(sizes)], start=1):
        patches = row * (N_PATCHES / 2 / row.sum())  # half of them are background
        noise = rng.standard_normal((n_classes, dim)) * np.sqrt(patches / dim)[:, None]
        sums += patches[:, None] * centers + PATCH_NOISE * noise
        counts += patches
        if image in sizes:
            found.append((sums / np.maximum(counts, 1e-9)[:, None], counts.copy()))
    return found


def limit(
    seed: int, n_classes: int, text: float, labels: tuple[int, int], sizes: Sequence[int]
) -> list[float]:
    """mAP in per cent from so many images each, ascending, and from endlessly many."""
    prototypes, _, centers = class_places(np.random.RandomState(seed), n_classes, DIM, text)
    truth = varied_world(
        seed, sizes[-1] + TEST, n_classes=n_classes, text=text, labels=labels
    ).labels
    # Not the world's own stream: that begins with the prototypes, and such noise would tell the names.
    rng = np.random.RandomState([seed, 1])
    seen = seen_centers(centers, truth.numpy(), sizes, rng)
    seen.append((centers, np.full(n_classes, np.inf)))
    test = truth[sizes[-1] :]
    orders = (
        name_odds(nats_of(prototypes, *means_and_counts, text=text)) for means_and_counts in seen
    )
    return [
        ranked_by_chance(test.double() @ torch.from_numpy(odds.T), test, rng) for odds in orders
    ]


def ranked_by_chance(scores: Tensor, test: Tensor, rng: np.random.RandomState) -> float:
    """mAP in per cent, (n, C) each, with equal scores in any order.

    As one level they would have the precision at its end all along: half of the second best of two classes
    that have each other's name, where images that differ by a hair have a third.
    """
    chance = (torch.from_numpy(1e-12 * rng.uniform(size=scores.shape)) for _ in range(TIES))
    return fmean(percent(scores + hair, test) for hair in chance)


def beside(
    seed: int, n_classes: int, text: float, labels: tuple[int, int]
) -> list[tuple[float, float, float, float]]:
    """mAP in per cent of the default, this rule, the better text branch and the best preset, by global."""
    rule, _ = limit(seed, n_classes, text, labels, (FIT,))
    rows = []
    for strength, noise in GLOBALS:
        world = varied_world(
            seed,
            FIT + TEST,
            n_classes=n_classes,
            text=text,
            cls=strength,
            cls_noise=noise,
            labels=labels,
        )
        with torch.inference_mode():
            auto, by_text, preset = measure(world)
        rows.append((auto, rule, by_text, preset))
    return rows


def print_beside(seeds: range, classes: list[int], texts: list[float]) -> None:
    print(f"\n{'':53}{'below text, worst':27}below preset, worst")
    means = "".join(f"{name:>7}" for name in ("auto", "rule", "text", "preset"))
    print(f"classes  text labels worlds{means}{'       auto        rule' * 2}")
    every = []
    for n_classes, text, labels in kinds(classes, texts):
        rows = [row for seed in seeds for row in beside(seed, n_classes, text, labels)]
        every += rows
        name = f"{n_classes:7} {text:5} {f'{labels[0]}-{labels[1]}':>6}"
        print(beside_row(name, rows), flush=True)
    print(beside_row(f"{'all':20}", every))


def beside_row(name: str, rows: list[tuple[float, float, float, float]]) -> str:
    means = "".join(f"{fmean(column):7.1f}" for column in zip(*rows, strict=True))
    counts = (below(list(rows), column, ours) for column, ours in product((2, 3), (0, 1)))
    return f"{name} {len(rows):6}{means}{''.join(counts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--classes", type=int, nargs="+", default=[5, 20])
    parser.add_argument("--text", type=float, nargs="+", default=[0.45, 0.3])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100, 1000])
    parser.add_argument("--beside", action="store_true", help="the default and presets as well")
    options = parser.parse_args()
    if max(options.classes) > MOST_CLASSES:
        parser.error(f"--classes: {MOST_CLASSES} at most, not {max(options.classes)}")
    sizes = sorted(options.sizes)
    print(describe())
    if options.beside:
        seeds = range(options.first, options.first + options.seeds)
        print_beside(seeds, options.classes, options.text)
        return
    head = "".join(f"{size:>7}" for size in (*sizes, "all"))
    print(f"\nclasses  text labels worlds{head}   dips, worst")
    for n_classes, text, labels in kinds(options.classes, options.text):
        seeds = range(options.first, options.first + options.seeds)
        rows = [limit(seed, n_classes, text, labels, sizes) for seed in seeds]
        means = "".join(f"{fmean(column):7.1f}" for column in zip(*rows, strict=True))
        print(
            f"{n_classes:7} {text:5} {f'{labels[0]}-{labels[1]}':>6} {len(rows):6}{means}   "
            f"{count_falls([deepest_fall(row) for row in rows])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
