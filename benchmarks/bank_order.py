"""What it costs to order banks by the lead instead of the entropy at a matched scale.

    python benchmarks/bank_order.py [--seeds N]

The matched scale (mean entropy 0.8 log C) is known only after a whole collection has been seen, so
a bank that streams and merges cannot use it; `piaa.pvcl.keys` orders by the lead. On synthetic
worlds of patches with a modality gap and text of poor alignment this prints, for each order, the
share of bank vectors whose class is right and the mAP of the resulting classifier on as many other
images. "60" is the entropy at the published scale, "mean" the best cosine minus the mean, "margin" the
best minus the second; the lead is half way between these two.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa import paa, pvcl
from piaa.config import Config
from piaa.pvcl import gda

from machine import describe

BASE = {"n": 600, "cells": 49, "dim": 64, "classes": 20, "text": 0.25, "noise": 0.8}
WORLDS: dict[str, dict[str, float]] = {
    "base": {},
    "useless text": {"text": 0.12},
    "strong text": {"text": 0.5},
    "noisy patches": {"noise": 1.4},
    "wide modality gap": {"gap": 2.5},
    "strong background": {"background": 1.2},
    "many labels": {"most": 8},
    "5 classes": {"classes": 5, "text": 0.15},
    "100 classes": {"classes": 100, "dim": 128, "n": 1000},
    "300 classes": {"classes": 300, "dim": 256, "n": 1500, "cells": 36},
}
ORDERS = ("matched", "mean", "lead", "margin", "60")


def world(
    seed: int,
    *,
    n: int,
    cells: int,
    dim: int,
    classes: int,
    text: float,
    noise: float,
    gap: float = 0.9,
    background: float = 0.5,
    most: int = 3,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Unit patches (2n, M, D), unit text (C, D), class of each patch or -1, labels (2n, C)."""
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    words = normalize(normal(classes, dim), dim=-1)
    centers = text * words + 0.7 * normal(classes, dim) / dim**0.5
    scenery = background * normal(4, dim) / dim**0.5
    shift = gap * normalize(normal(dim), dim=0)
    kinds = torch.full((2 * n, cells), -1)
    labels = torch.zeros(2 * n, classes, dtype=torch.int64)
    patches = scenery[torch.randint(4, (2 * n, cells), generator=random)]
    for i in range(2 * n):
        k = min(int(torch.randint(1, most + 1, (), generator=random)), classes)
        present = torch.randperm(classes, generator=random)[:k]
        labels[i, present] = 1
        object_cells = torch.rand(cells, generator=random) < (k + 1) / (2 * k + 2)
        kinds[i, object_cells] = present[
            torch.randint(k, (int(object_cells.sum()),), generator=random)
        ]
    patches = torch.where(kinds[..., None] >= 0, centers[kinds], patches)
    patches = normalize(patches + shift + noise * normal(2 * n, cells, dim) / dim**0.5, dim=-1)
    return patches, words, kinds, labels


def keys(order: str, cosines: Tensor) -> Tensor:
    """Lower is more confident."""
    best, second = cosines.topk(2, dim=1).values.unbind(1)
    behind = {"mean": cosines.mean(dim=1), "margin": second}
    behind["lead"] = (behind["mean"] + behind["margin"]) / 2
    if order in behind:
        return behind[order] - best
    scale = pvcl.match_scale(cosines[::7]) if order == "matched" else float(order)
    log_p = (cosines.double() * scale).log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def average_precision(scores: Tensor, labels: Tensor) -> float:
    """Mean over classes of the non-interpolated average precision, in percent (no ties here)."""
    ranked = labels.gather(0, scores.argsort(dim=0, descending=True)).double()
    precision = ranked.cumsum(0) / torch.arange(1, len(ranked) + 1)[:, None]
    positives = ranked.sum(0)
    each = (precision * ranked).sum(0) / positives.clamp(min=1)
    return 100 * float(each[positives > 0].mean())


def measure(seed: int, options: dict[str, float]) -> Tensor:
    """(orders, 2): purity of the banks and mAP, in percent."""
    patches, text, kinds, labels = world(seed, **{**BASE, **options})  # type: ignore[arg-type]
    n, config = len(patches) // 2, Config.auto()
    rows, truth = patches[:n].flatten(0, 1), kinds[:n].flatten()
    cosines = rows @ text.T
    predicted = cosines.argmax(dim=1)
    size = config.effective_bank_size(n_patches=len(rows), n_classes=len(text))
    results = []
    for order in ORDERS:
        by_key = keys(order, cosines).argsort()
        by_key = by_key[predicted[by_key].argsort(stable=True)]
        counts = torch.bincount(predicted, minlength=len(text))
        rank = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[predicted[by_key]]
        bank = by_key[rank < size]
        head = gda.fit(
            rows[bank],
            predicted[bank],
            text,
            covariance=config.covariance,
            shrinkage=config.shrinkage,
            log_prior=False,
        )
        scale = pvcl.match_scale(head.scores(rows[::7]))
        scores = paa.patch_log_odds(patches[n:], head.weight, bias=head.bias, scale=scale)
        purity = 100 * float((truth[bank] == predicted[bank]).double().mean())
        results.append((purity, average_precision(scores, labels[n:])))
    return torch.tensor(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    print(describe())
    print(f"{'purity / mAP':20s}" + "".join(f"{order:>16s}" for order in ORDERS))
    totals = []
    for name, changes in WORLDS.items():
        cells = torch.stack([measure(seed, changes) for seed in range(options.seeds)]).mean(0)
        totals.append(cells)
        print(f"{name:20s}" + "".join(f"{p:9.1f} /{m:5.1f}" for p, m in cells.tolist()))
    lead, matched = ORDERS.index("lead"), ORDERS.index("matched")
    differences = torch.stack(totals)[:, lead] - torch.stack(totals)[:, matched]
    for title, gap in zip(("purity", "mAP"), differences.T, strict=True):
        print(f"lead minus matched, {title}: mean {gap.mean():+.2f}, worst {gap.min():+.2f}")


if __name__ == "__main__":
    main()
