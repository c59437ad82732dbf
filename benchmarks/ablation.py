"""Text alone, PVCL, PAA and both, for any encoder and data set, with paired bootstrap intervals.

    python benchmarks/ablation.py --root DEVKIT --encoder ViT-B-16 [--frontend sc-clip]
    python benchmarks/ablation.py --root DEVKIT --weights clip.safetensors [--limit 500]
    python benchmarks/ablation.py --dataset coco2014 --root COCO --encoder lite
    python benchmarks/ablation.py --dataset folder --root MINE --encoder lite

Learns from the data set's images to learn from, without their labels, and measures on those to test on
(docs/evaluation.md says which they are, and what a folder of your own looks like): non-interpolated average
precision, VOC's objects marked difficult counted as absent. "auto" is the default of `piaa.Recognizer` among
the data set's classes alone; the presets are the published code's constants. Features are kept in the cache
and encoded once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

import piaa
from piaa.classes.class_list import encode_classes
from piaa.config import Config
from piaa.datasets import Dataset, list_datasets, open_dataset
from piaa.encoders.base import ImageFeatures
from piaa.evaluation.bootstrap import paired_interval
from piaa.evaluation.encoded import Encoded, FeatureSets
from piaa.evaluation.metrics import mean_average_precision
from piaa.fitting.gathered import Gathered
from piaa.scoring import Scorer, cls_branch, learned_branch, text_branch

from machine import describe

AUTO = "auto (PVCL + PAA)"


def encode(encoder: piaa.Encoder, paths: tuple[Path, ...], sets: FeatureSets) -> Encoded:
    found = sets.get(encoder, paths)
    speed = f", at {found.images_per_second:.1f} images/s" if found.fresh else ""
    print(f"{len(found)} images, {found.fresh} encoded now{speed}", flush=True)
    return found


def fit(learn: Iterable[ImageFeatures], text: Tensor, config: Config) -> Scorer:
    gathered = Gathered(text, config)
    for part in learn:
        gathered.add(part)
    return gathered.finish().scorer


def ablate(learn: Encoded, test: Encoded, text: Tensor) -> dict[str, Tensor]:
    """Scores (n, C) of the test images: the branches of auto, auto, and the published presets."""
    auto = fit(learn, text, Config.auto())
    if auto.classifier is None:
        raise SystemExit("The fit has no classifier.")
    published = {p: fit(learn, text, Config.reference(p)) for p in ("voc", "coco", "nus")}
    found: dict[str, list[Tensor]] = {}
    for part in test:
        patches = text_branch(part.patches, text, auto.scales.text)
        whole = cls_branch(part.cls, text, auto.scales.cls)
        learned = learned_branch(part.patches, auto.classifier, auto.scales.learned, auto.groups)
        scores = {
            "text, patches": patches,
            "text, global": whole,
            "text, both (PAA alone)": patches + whole,
            "learned (PVCL alone)": learned,
            AUTO: auto.evidence(part),
        }
        for preset, scorer in published.items():
            scores[f"published constants, {preset}"] = scorer.evidence(part)
        for name, values in scores.items():
            found.setdefault(name, []).append(values)
    return {name: torch.cat(parts) for name, parts in found.items()}


def print_rows(rows: dict[str, Tensor], dataset: Dataset, rounds: int) -> None:
    print(f"\n{len(dataset.learn)} images to learn from, {len(dataset.test)} to test on")
    print(f"{'':32}{'mAP':>7}   auto minus it (95 %)")
    for name, scores in rows.items():
        line = f"{name:32}{100 * mean_average_precision(scores, dataset.labels):7.2f}"
        if name != AUTO:
            gap = paired_interval(rows[AUTO], scores, dataset.labels, rounds=rounds)
            line += f"   [{100 * gap.low:+.2f}, {100 * gap.high:+.2f}]"
        print(line, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", choices=list_datasets(), default="voc2007")
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--weights")
    parser.add_argument("--frontend")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--limit", type=int, help="so many images of each split only")
    parser.add_argument("--rounds", type=int, default=200, help="of the bootstrap")
    options = parser.parse_args(arguments)

    encoder = piaa.load_encoder(
        options.encoder,
        weights=options.weights,
        frontend=options.frontend,
        precision=options.precision,
    )
    print(describe())
    print(encoder)
    dataset = open_dataset(options.dataset, options.root, partial=True)
    dataset = dataset.limited(options.limit)
    for note in dataset.notes:
        print(f"note: {note}")
    sets = FeatureSets()
    learn, test = (encode(encoder, s.paths, sets) for s in (dataset.learn, dataset.test))
    text = encode_classes(encoder, dataset.classes, encoder.prompt_template)
    print_rows(ablate(learn, test, text), dataset, options.rounds)


if __name__ == "__main__":
    main()
