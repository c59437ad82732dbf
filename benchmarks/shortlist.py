"""The two-step search of large vocabularies: recall of the ten best classes, and speed, against all.

    python benchmarks/shortlist.py [--classes 10000 30000 100000] [--images 16]
    python benchmarks/shortlist.py --photos FOLDER [--images 48]

Synthetic words come in families of 100 and groups of ten, around a common direction, as those of
CLIP do; images show four words on half of their 196 patches. With --photos, the vocabulary is the
nouns of WordNet that the `lite` encoder knows. "error" is by how much the evidence of a listed
class differs from the full computation, in standard deviations of the latter.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

import piaa
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.pvcl import match_scale
from piaa.scoring import Scales, Scorer
from piaa.shortlist import Shortlist

from machine import describe, side_by_side, times_as_fast

DIM, PATCHES, SHOWN = 512, 196, 4
SHARES = (0.02, 0.05, 0.1, 0.2)
USUAL = 0.05


def world(n_classes: int, n_images: int) -> tuple[Scorer, ImageFeatures]:
    random = torch.Generator().manual_seed(n_classes)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random) / DIM**0.5

    numbers = torch.arange(n_classes)
    families, groups = normal(n_classes // 100 + 1, DIM), normal(n_classes // 10 + 1, DIM)
    words = 0.7 * families[numbers // 100] + 0.6 * groups[numbers // 10]
    words = normalize(1.2 * normal(DIM) + words + 0.6 * normal(n_classes, DIM), dim=1)
    directions, gap = normalize(words - words.mean(0), dim=1), normalize(normal(DIM), dim=0)
    shown = torch.randint(n_classes, (n_images, SHOWN), generator=random)
    kinds = shown.gather(1, torch.randint(SHOWN, (n_images, PATCHES), generator=random))
    strength = 0.8 * torch.rand(n_images, PATCHES, 1, generator=random)
    strength *= torch.rand(n_images, PATCHES, 1, generator=random) < 0.5
    noise = 0.8 * normal(n_images, PATCHES, DIM)
    patches = normalize(gap + strength * directions[kinds] + noise, dim=-1)
    cls = normalize(gap + 0.2 * directions[shown].sum(1) + 0.5 * normal(n_images, DIM), dim=-1)
    scorer = Scorer.zero_shot(words, Config.auto(), 1.0)
    rows = patches[:, ::16].flatten(0, 1)[:500]
    scales = Scales(match_scale(rows @ words.T), 1.0, match_scale(cls @ words.T))
    return replace(scorer, scales=scales), ImageFeatures(cls, patches, (14, 14))


def measure(scorer: Scorer, features: ImageFeatures) -> None:
    """Print a line for each length of list."""
    start = time.perf_counter()
    shortlist = Shortlist(scorer)
    making = time.perf_counter() - start
    n_classes, n_images = len(scorer.text), len(features.cls)
    full = scorer.evidence(features) - scorer.thresholds
    best = full.topk(10).indices
    n_clusters, largest = len(shortlist.clusters.sizes), int(shortlist.clusters.sizes.max())
    print(f"\n{n_classes:,} classes, {n_images} images; {n_clusters} clusters of up to ", end="")
    print(f"{largest} made in {making:.1f} s")
    print(f"{'list':>8}{'recall@10':>11}{'first':>7}{'median error':>14}{'speed':>8}")
    lengths = [round(share * n_classes) for share in SHARES]
    runs = [lambda n=n: shortlist.evidence(features, n) for n in lengths]
    everything, *spent = side_by_side(lambda: scorer.evidence(features), *runs, rounds=2)
    for length, each in zip(lengths, spent, strict=True):
        found = shortlist.evidence(features, length) - scorer.thresholds
        mine = found.topk(10).indices
        recall = (best[:, :, None] == mine[:, None]).any(2).float().mean()
        first = (best[:, 0] == mine[:, 0]).float().mean()
        listed = found > -torch.inf
        error = (found - full)[listed].abs().median() / full.std()
        print(f"{length:8,}{recall:11.3f}{first:7.2f}{error:14.4f}{everything / each:8.1f}")


def photographs(folder: Path, n_images: int) -> tuple[Scorer, ImageFeatures]:
    from piaa.encoders.lite.lexicon import load_lexicon

    encoder = piaa.load_encoder("lite")
    recognizer = piaa.Recognizer(encoder, sorted(load_lexicon().words))
    return recognizer.scorer, encoder.encode_images(sorted(folder.glob("*.jpg"))[:n_images])


@torch.inference_mode()
def ratios() -> dict[str, float]:
    scorer, features = world(30_000, 4)
    shortlist, length = Shortlist(scorer), round(USUAL * 30_000)
    gain = times_as_fast(
        lambda: shortlist.evidence(features, length), lambda: scorer.evidence(features), rounds=5
    )
    return {"score: 30,000 classes by shortlist of 5 %, against all": gain}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--classes", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--photos", type=Path)
    options = parser.parse_args()
    print(describe())
    if options.photos:
        measure(*photographs(options.photos, options.images))
        return
    for n_classes in options.classes:
        measure(*world(n_classes, options.images))


if __name__ == "__main__":
    main()
