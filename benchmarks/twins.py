"""Worlds in which no ranking of the images is as good as every preset: two worlds that look the same.

    python benchmarks/twins.py [--seeds N] [--first SEED] [--text 0.45 0.3]

Two worlds of tests/worlds.py may have the same patches, global vectors and texts, and differ only in which
class is which: the places of the classes are drawn around their texts, and any order of them can be drawn.
What sees no labels then gives the same scores in both. One preset may be right in the one and another in the
other; a rule that is never below either has to be as good in both at once, and how good any ranking can be
for two sets of images at once is known (`best_for_both`).

For worlds of 5 classes with one label an image and a weak global vector: in how many of them, with one of its
twins, is the mean of two presets more than 0.15 mAP above what any ranking has on average; and the widest
case. There every rule is as far below a preset in one of the two. Rankings have no ties: images with equal
scores come by chance.
"""

from __future__ import annotations

import argparse
from itertools import permutations, product
from typing import NamedTuple

import numpy as np
import torch

from piaa.evaluation.metrics import average_precisions
from synthetic import FIT, GLOBALS, NOTHING, PRESETS, TEST, features, published
from worlds import World, varied_world

from machine import describe

N_CLASSES = 5
ORDERS = np.array(list(permutations(range(N_CLASSES))))


class Twins(NamedTuple):
    """Two presets, their mAP in per cent each in one of two orders of names, and what any ranking has."""

    presets: tuple[str, str]
    reached: tuple[float, float]
    most: float

    @property
    def gap(self) -> float:
        return sum(self.reached) / 2 - self.most


def best_for_both(n_first: int, n_second: int) -> float:
    """Highest sum of the average precisions of two sets of images that share none, of all rankings.

    Images of neither set come last. What the ones before add up to depends on how many of each there are.
    """
    best = np.full((n_first + 1, n_second + 1), -np.inf)
    best[0, 0] = 0
    for one, two in product(range(n_first + 1), range(n_second + 1)):
        if one:
            best[one, two] = max(best[one, two], best[one - 1, two] + one / (one + two) / n_first)
        if two:
            best[one, two] = max(best[one, two], best[one, two - 1] + two / (one + two) / n_second)
    return float(best[-1, -1])


def widest(world: World) -> Twins:
    """The two presets and orders of names that are furthest above any ranking."""
    labels, seen = world.labels[FIT:].numpy(), features(world, slice(FIT, None))
    sizes = labels.sum(0)
    both = np.array(
        [
            [2.0 if a == b else best_for_both(sizes[a], sizes[b]) for b in range(N_CLASSES)]
            for a in range(N_CLASSES)
        ]
    )
    most = 50 * both[ORDERS[:, None], ORDERS[None]].mean(2)
    every, rng = np.arange(N_CLASSES), np.random.RandomState(0)
    reached = {}
    for preset in PRESETS:
        scores = published(world, seen, preset).double().numpy()
        scores += 1e-12 * rng.uniform(size=scores.shape)  # no ties
        # (C, C): scores of a name, and images of a class.
        of_pairs = np.array([average_precisions(scores[:, [c] * N_CLASSES], labels) for c in every])
        reached[preset] = 100 * of_pairs[every, ORDERS].mean(1)
    found = []
    for one, two in product(PRESETS, PRESETS):
        above = (reached[one][:, None] + reached[two]) / 2 - most
        a, b = np.unravel_index(above.argmax(), above.shape)
        pair = (float(reached[one][a]), float(reached[two][b]))
        found.append(Twins((one, two), pair, float(most[a, b])))
    return max(found, key=lambda twins: twins.gap)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=25000, help="the first seed")
    parser.add_argument("--text", type=float, nargs="+", default=[0.45, 0.3])
    options = parser.parse_args()
    print(describe())
    print("\n text worlds   no ranking is as good   widest: seed, presets, any ranking")
    strength, noise = GLOBALS[1]
    for text in options.text:
        found = {}
        for seed in range(options.first, options.first + options.seeds):
            kind = {"n_classes": N_CLASSES, "text": text, "labels": (1, 1)}
            world = varied_world(seed, FIT + TEST, cls=strength, cls_noise=noise, **kind)
            found[seed] = widest(world)
        seed = max(found, key=lambda seed: found[seed].gap)
        case = found[seed]
        reached = ", ".join(f"{n} {m:.1f}" for n, m in zip(case.presets, case.reached, strict=True))
        count = sum(twins.gap > NOTHING for twins in found.values())
        print(
            f"{text:5} {len(found):6} {count:10}              {seed}: {reached}; {case.most:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    with torch.inference_mode():
        main()
