"""Classes that are not in the images to learn from, on a VOC devkit: do they stay as they were?

    python benchmarks/absent.py --root DEVKIT [--encoder lite] [--draws 8] [--first 0] [--exchanged]

Half of the classes are drawn, and no image of `trainval` in which one of them is annotated, difficult or not,
is learnt from. Average precision on `test`, as in benchmarks/ablation.py, against the recognizer before any
fit. With --exchanged `test` is learnt from and `trainval` measured. Features are kept in piaa's cache,
encoded once and read once: 2 GB of memory for 4,000 images.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import numpy as np
import torch

import piaa
from piaa.datasets import Dataset, open_dataset
from piaa.datasets.names import VOC
from piaa.evaluation.encoded import FeatureSets
from piaa.evaluation.metrics import average_precisions
from piaa.fitting.fit_report import EvidenceWarning

from machine import describe


def annotated(images: Iterable[Path], *, difficult: bool = True) -> np.ndarray:
    """(n, C) bool: classes of which any object is annotated, those marked difficult too or not."""
    found = []
    for image in images:
        path = image.parents[1] / "Annotations" / f"{image.stem}.xml"
        things = ElementTree.parse(path).findall("object")
        counted = [t for t in things if difficult or t.findtext("difficult", "0").strip() != "1"]
        words = {thing.findtext("name", "").strip() for thing in counted}
        found.append([word in words for word in VOC])
    return np.array(found)


def exchanged(dataset: Dataset) -> Dataset:
    """The test images to learn from, and those to learn from, with their labels, to test on."""
    labels = annotated(dataset.learn.paths, difficult=False).astype(np.int8)
    return replace(
        dataset,
        learn=replace(dataset.test, labels=None, shares=None),
        test=replace(dataset.learn, labels=labels),
    )


class Measured:
    """A recognizer that starts anew for every fit, and its average precision class by class."""

    def __init__(self, encoder: piaa.Encoder, dataset: Dataset) -> None:
        sets = FeatureSets()
        self.encoder, self.dataset = encoder, dataset
        learn, test = (sets.get(encoder, s.paths) for s in (dataset.learn, dataset.test))
        self.learn = [part[i : i + 1] for part in learn for i in range(len(part))]
        self.test = list(test)
        self.zero_shot, _ = self.precision(None)

    def precision(self, keep: np.ndarray | None) -> tuple[np.ndarray, set[str]]:
        """In per cent, (C,), learnt from the images with `keep`; and the classes the report names."""
        recognizer = piaa.Recognizer(self.encoder, self.dataset.classes)
        named: set[str] = set()
        if keep is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EvidenceWarning)
                some = (self.learn[i] for i in keep.nonzero()[0])
                named = set(recognizer.fit(some).without_evidence)
        scores = torch.cat([recognizer.scorer.evidence(part) for part in self.test])
        return 100 * average_precisions(scores, self.dataset.labels), named


def absent(measured: Measured, draws: range) -> None:
    names = [str(name) for name in measured.dataset.classes]
    holds = annotated(measured.dataset.learn.paths)
    print("\nabsent classes: mAP against zero-shot, and how many of them the report names")
    print(
        f"{'draw':>4} {'images':>7} {'absent':>7} {'present':>8} {'absent named':>13} {'present named':>14}"
    )
    rows, worst = [], []
    for seed in draws:
        out = np.random.default_rng(seed).permutation(len(names))[: len(names) // 2]
        inside = np.setdiff1d(np.arange(len(names)), out)
        keep = ~holds[:, out].any(axis=1)
        found, named = measured.precision(keep)
        change = found - measured.zero_shot
        named_out, named_in = (sum(names[c] in named for c in some) for some in (out, inside))
        rows.append((change[out].mean(), change[inside].mean(), named_out, named_in))
        worst.append((change[out].min(), names[out[change[out].argmin()]], seed))
        print(
            f"{seed:4} {keep.sum():7,} {rows[-1][0]:+7.2f} {rows[-1][1]:+8.2f} {named_out:13} {named_in:14}",
            flush=True,
        )
    mean = [fmean(column) for column in zip(*rows, strict=True)]
    print(f"mean {'':7} {mean[0]:+7.2f} {mean[1]:+8.2f} {mean[2]:13.1f} {mean[3]:14.1f}")
    loss, name, seed = min(worst)
    print(
        f"worst draw {min(row[0] for row in rows):+.2f}, worst class {loss:+.1f} ({name}, {seed})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--encoder", default="lite")
    parser.add_argument("--draws", type=int, default=8, help="of absent classes")
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument(
        "--exchanged", action="store_true", help="learn from test, not from trainval"
    )
    options = parser.parse_args()
    print(describe())
    encoder = piaa.load_encoder(options.encoder)
    print(encoder)
    dataset = open_dataset("voc2007", options.root, partial=True)
    measured = Measured(encoder, exchanged(dataset) if options.exchanged else dataset)
    absent(measured, range(options.first, options.first + options.draws))


if __name__ == "__main__":
    main()
