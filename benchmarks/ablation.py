"""Text alone, PVCL, PAA and both, for any encoder on a VOC devkit, with paired bootstrap intervals.

    python benchmarks/ablation.py --root DEVKIT --encoder ViT-B-16 [--frontend sc-clip]
    python benchmarks/ablation.py --root DEVKIT --weights clip.safetensors [--limit 500]

Learns from `trainval` without its labels and measures on `test`: non-interpolated average precision, objects
marked difficult counted as absent. "auto" is the default of `piaa.Recognizer`; the presets are the published
code's constants.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

import piaa
from piaa import paa
from piaa.classes import encode_classes
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.fitting import Gathered
from piaa.scoring import cls_branch, text_branch
from voc import NAMES, read_split

from machine import describe


def encode(encoder: piaa.Encoder, paths: list[Path]) -> ImageFeatures:
    start = time.perf_counter()
    features = encoder.encode_images(paths)
    seconds = time.perf_counter() - start
    print(f"encoded {len(paths)} images at {len(paths) / seconds:.1f} images/s", flush=True)
    return features


def chunks(features: ImageFeatures, size: int = 64) -> list[ImageFeatures]:
    return [features[start : start + size] for start in range(0, len(features), size)]


def average_precisions(labels: Tensor, scores: Tensor) -> np.ndarray:
    return np.array(
        [average_precision_score(labels[:, c], scores[:, c]) for c in range(labels.shape[1])]
    )


def paired(labels: Tensor, ours: Tensor, theirs: Tensor, rounds: int = 200) -> tuple[float, float]:
    """95 % interval of the difference in mAP, images drawn with replacement, the same for both."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(rounds):
        pick = torch.from_numpy(rng.integers(0, len(labels), len(labels)))
        seen = labels[pick].any(0)
        truth = labels[pick][:, seen]
        mine = average_precisions(truth, ours[pick][:, seen]).mean()
        found.append(mine - average_precisions(truth, theirs[pick][:, seen]).mean())
    low, high = np.percentile(found, [2.5, 97.5])
    return 100 * low, 100 * high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--encoder")
    parser.add_argument("--weights")
    parser.add_argument("--frontend")
    parser.add_argument("--limit", type=int, help="so many images of each split only")
    parser.add_argument("--rounds", type=int, default=200, help="of the bootstrap")
    options = parser.parse_args()

    encoder = piaa.load_encoder(options.encoder, weights=options.weights, frontend=options.frontend)
    print(describe())
    print(encoder)
    train_paths, _ = read_split(options.root, "trainval", options.limit)
    test_paths, labels = read_split(options.root, "test", options.limit)
    train, test = encode(encoder, train_paths), encode(encoder, test_paths)
    text = encode_classes(encoder, list(NAMES.values()), encoder.prompt_template)

    rows: dict[str, Tensor] = {}
    for preset in ("auto", "voc", "coco", "nus"):
        config = Config.auto() if preset == "auto" else Config.reference(preset)
        gathered = Gathered(text, config)
        for part in chunks(train):
            gathered.add(part)
        scorer = gathered.finish().scorer
        scales = scorer.scales
        if preset == "auto":
            rows["text, patches"] = torch.cat(
                [text_branch(part.patches, text, scales.text) for part in chunks(test)]
            )
            rows["text, global"] = cls_branch(test.cls, text, scales.cls)
            rows["text, both (PAA alone)"] = rows["text, patches"] + rows["text, global"]
            classifier = scorer.classifier
            rows["learned (PVCL alone)"] = torch.cat(
                [
                    paa.patch_log_odds(
                        part.patches, classifier.weight, bias=classifier.bias, scale=scales.learned
                    )
                    for part in chunks(test)
                ]
            )
            name = "auto (PVCL + PAA)"
        else:
            name = f"published constants, {preset}"
        rows[name] = torch.cat([scorer.evidence(part) for part in chunks(test)])

    ours = rows["auto (PVCL + PAA)"]
    print(f"\n{len(train)} images to learn from, {len(test)} to test on")
    print(f"{'':32}{'mAP':>7}   auto minus it (95 %)")
    for name, scores in rows.items():
        line = f"{name:32}{100 * average_precisions(labels, scores).mean():7.2f}"
        if scores is not ours:
            low, high = paired(labels, ours, scores, options.rounds)
            line += f"   [{low:+.2f}, {high:+.2f}]"
        print(line, flush=True)


if __name__ == "__main__":
    main()
