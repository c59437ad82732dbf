"""Short lists of classes, on a VOC devkit: with other names beside them and without.

    python benchmarks/vocabulary.py --root DEVKIT [--encoder lite] [--sizes 1 3 8 12]

Open: the 20 classes are shuffled and cut into lists of a size, again and again until there are 6 lists. All
images of `trainval` are learnt from, most of which show none of a short list. Closed: families of classes,
and only images in which one of the family is annotated, to learn from and to test on. mAP on `test` before
and after the fit, macro F1 at the stored thresholds, what the best thresholds in hindsight give, and how many
images have a tag of a class and hold it; then how many the report says show none of the classes. A class
alone cannot be scored before a fit without other names. Features are kept in piaa's cache, encoded once and
read once.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import piaa
from absent import annotated
from piaa.classes.others import Others
from piaa.datasets import open_dataset
from piaa.encoders.base import ImageFeatures
from piaa.evaluation.encoded import FeatureSets
from piaa.evaluation.metrics import mean_average_precision
from piaa.fitting.fit_report import EvidenceWarning
from piaa.thresholds import best_thresholds

from machine import describe

FAMILIES = (
    ("cat", "dog"),
    ("car", "bus", "train"),
    ("sheep", "cow", "horse"),
    ("chair", "sofa", "dining table", "potted plant"),
)


class Row(NamedTuple):
    """In per cent."""

    zero_shot: float
    fitted: float
    f1: float
    best_f1: float
    tagged: float
    true: float
    unnamed: float


class Images(NamedTuple):
    learn: list[ImageFeatures]
    test: list[ImageFeatures]
    labels: np.ndarray


def measure(encoder: piaa.Encoder, classes: Sequence[str], images: Images, others: Others) -> Row:
    recognizer = piaa.Recognizer(encoder, classes, others=others)
    truth = torch.from_numpy(images.labels).bool()

    def evidence() -> torch.Tensor:
        return torch.cat([recognizer.scorer.evidence(part) for part in images.test])

    alone = len(recognizer.prototypes) == 1
    before = float("nan") if alone else mean_average_precision(evidence(), images.labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        report = recognizer.fit(images.learn)
    found = evidence()
    tagged = found >= recognizer.scorer.thresholds
    numbers = (
        before,
        mean_average_precision(found, images.labels),
        macro_f1(tagged, truth),
        macro_f1(found >= best_thresholds(found, truth), truth),
        float(tagged.float().mean()),
        float(truth.float().mean()),
        float("nan") if report.unnamed is None else report.unnamed,
    )
    return Row(*(100 * number for number in numbers))


def macro_f1(tagged: torch.Tensor, truth: torch.Tensor) -> float:
    return float((2 * (tagged & truth).sum(0) / (tagged.sum(0) + truth.sum(0)).clamp_min(1)).mean())


def cut_up(size: int, least: int = 6) -> list[np.ndarray]:
    """At least so many lists of classes, each class in as many as any other but for what is left over."""
    lists: list[np.ndarray] = []
    for seed in range(least):
        if len(lists) < least:
            order = np.random.default_rng(seed).permutation(20)
            lists += [order[i : i + size] for i in range(0, 21 - size, size)]
    return lists


def some(parts: Sequence[ImageFeatures], keep: np.ndarray) -> list[ImageFeatures]:
    singles = [part[i : i + 1] for part in parts for i in range(len(part))]
    return [singles[place] for place in keep.nonzero()[0]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--encoder", default="lite")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 3, 8, 12])
    options = parser.parse_args()
    print(describe())
    encoder = piaa.load_encoder(options.encoder)
    print(encoder)
    dataset = open_dataset("voc2007", options.root, partial=True)
    names, sets = [str(name) for name in dataset.classes], FeatureSets()
    learn, test = (list(sets.get(encoder, s.paths)) for s in (dataset.learn, dataset.test))
    holds = annotated(dataset.learn.paths)

    heads = ("zero-shot", "fitted", "F1", "best F1", "tagged", "true", "unnamed")
    print(f"\n{'classes':34}{'others':>8}" + "".join(f"{head:>10}" for head in heads))

    def line(title: str, others: str, rows: list[Row]) -> None:
        means = np.mean(rows, axis=0)
        print(f"{title:34}{others:>8}" + "".join(f"{x:10.1f}" for x in means), flush=True)

    for size in options.sizes:
        lists = cut_up(size)
        for others in (None, "auto"):
            rows = [
                measure(
                    encoder,
                    [names[c] for c in columns],
                    Images(learn, test, dataset.labels[:, columns]),
                    others,
                )
                for columns in lists
            ]
            line(f"open, {len(lists)} lists of {size}", str(others), rows)
    for family in FAMILIES:
        columns = [names.index(name) for name in family]
        here = dataset.labels[:, columns].any(1)
        images = Images(
            some(learn, holds[:, columns].any(1)),
            some(test, here),
            dataset.labels[here][:, columns],
        )
        for others in (None, "auto"):
            line(", ".join(family), str(others), [measure(encoder, family, images, others)])


if __name__ == "__main__":
    with torch.inference_mode():
        main()
