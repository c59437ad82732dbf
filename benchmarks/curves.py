"""Cost of learning and scoring after encoding, against classes, bank size and number of images.

    python benchmarks/curves.py [--images 100000] [--figure docs/images/curves.svg]

Costs are shares of encoding an image at ViT-B/16 size (random weights, SC-CLIP, batch 8, float32),
timed in the same run. Patches are synthetic, drawn batch by batch and thrown away. "add" is a batch
of 32 x 196 patches into banks that start empty; "solve" is the classifier of what was added; "score"
is what `Recognizer.predict` does with features, all four branches; "aggregate" the published form.
Exits with an error if a share at 10,000 classes is 15 % or more, or the cost of an image grows with
the number of images.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import torch
from torch import Tensor
from torch.nn.functional import normalize

from b16 import encoding_run
from piaa import paa, pvcl
from piaa.auto.weighting import BranchWeights
from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.scoring import Scales, Scorer

from machine import describe, in_turns

BATCH, PATCHES, DIM = 32, 196, 512
CLASSES = (20, 80, 1_000, 10_000)
BANKS = (128, 256, 512, 1_024, 1_536)
ENCODED = 8
MOST_SHARE = 0.15


def words(n_classes: int) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return normalize(torch.randn(n_classes, DIM, generator=random), dim=1)


def stream(text: Tensor, n_batches: int) -> Iterator[Tensor]:
    """Unit patches around one word each; one noise buffer, rolled, as drawing is slower than adding."""
    random = torch.Generator().manual_seed(1)
    noise = torch.randn(BATCH * PATCHES, DIM, generator=random) / DIM**0.5
    for index in range(n_batches):
        kind = torch.randint(len(text), (BATCH * PATCHES,), generator=random)
        strength = torch.rand(BATCH * PATCHES, 1, generator=random)
        patches = noise.roll(index % DIM, dims=1).addcmul_(text[kind], strength)
        yield normalize(patches, dim=1).view(BATCH, PATCHES, DIM)


def added(bank: pvcl.Bank, n_batches: int) -> list[float]:
    """Seconds an image of each batch."""
    spent = []
    for index, patches in enumerate(stream(bank.text, n_batches)):
        ids = torch.arange(index * BATCH, (index + 1) * BATCH)
        start = time.perf_counter()
        bank.update(patches, ids)
        spent.append((time.perf_counter() - start) / BATCH)
    return spent


def trained_scorer(text: Tensor) -> Scorer:
    """With all branches at work, as after a fit."""
    n = len(text)
    quarter = torch.full((n,), 0.25)
    head = pvcl.Classifier(30 * text.T.contiguous(), torch.zeros(n))
    weights = BranchWeights(quarter, quarter, quarter, quarter, quarter, quarter)
    scales = Scales(text=30.0, learned=1.0, cls=40.0)
    return Scorer(text, Config.auto(), head, scales, weights, torch.zeros(n), 1.0, head)


@dataclass(frozen=True)
class Costs:
    """Seconds to encode an image and to solve; all else as shares of encoding, timed next to it."""

    encode: float
    add: float
    add_reference: float
    solve: float
    score: float
    aggregate: float


def costs(n_classes: int, *, n_batches: int = 16, rounds: int = 3) -> Costs:
    text = words(n_classes)
    (patches,) = stream(text, 1)
    patches = patches[:ENCODED]
    cls = normalize(patches.mean(1), dim=-1)
    scorer, features = trained_scorer(text), ImageFeatures(cls, patches, (14, 14))
    reference = Config.reference("coco")
    head = pvcl.Classifier(30 * text.T.contiguous(), torch.zeros(n_classes))
    encoding = encoding_run(ENCODED)
    encode, score, aggregate = in_turns(
        encoding,
        lambda: scorer.scores(features),
        lambda: paa.aggregate(patches, cls, text, head, reference),
        rounds=rounds,
    )

    def share_of_adding(bank: pvcl.Bank, n_batches: int) -> float:
        (before,) = in_turns(encoding, rounds=1)
        spent = added(bank, n_batches)
        (after,) = in_turns(encoding, rounds=1)
        return median(spent) / (fmean([*before, *after]) / ENCODED)

    bank = pvcl.new_bank(text, Config.auto())
    add = share_of_adding(bank, n_batches)
    (solve,) = in_turns(lambda: pvcl.solve(bank, Config.auto()), rounds=rounds)
    # Every cosine counts for an entropy: at 10,000 classes a batch takes seconds.
    few = n_batches if n_classes < 10_000 else 2
    return Costs(
        encode=median(encode) / ENCODED,
        add=add,
        add_reference=share_of_adding(pvcl.new_bank(text, reference), few),
        solve=median(solve),
        score=median(s / e for s, e in zip(score, encode, strict=True)),
        aggregate=median(a / e for a, e in zip(aggregate, encode, strict=True)),
    )


def over_bank_sizes(n_batches: int) -> dict[int, tuple[float, float]]:
    """For each K: seconds an image to add, mean of all batches; seconds to solve with full banks."""
    found, text = {}, words(80)
    for size in BANKS:
        config = Config(bank_size=size, bank_fraction=None)
        bank = pvcl.new_bank(text, config)
        spent = added(bank, n_batches)
        (solve,) = in_turns(lambda b=bank, c=config: pvcl.solve(b, c), rounds=3)
        found[size] = (sum(spent) / len(spent), median(solve))
    return found


def over_images(n_images: int) -> dict[int, float]:
    """Images so far -> median seconds an image of the batches since the point before."""
    spent = added(pvcl.new_bank(words(80), Config.auto()), n_images // BATCH)
    points = [n for n in (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000) if n <= n_images]
    edges = [0, *(n // BATCH for n in points)]
    return {n: median(spent[a:b]) for n, a, b in zip(points, edges, edges[1:], strict=False)}


def draw(path: Path, by_classes: dict[int, Costs], by_bank: dict, by_images: dict) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    gray = "#808080"  # on white and on black
    colors = {"text.color": gray, "axes.labelcolor": gray, "axes.edgecolor": gray}
    ticks = {"xtick.color": gray, "ytick.color": gray, "grid.color": gray, "grid.alpha": 0.3}
    encode = median(each.encode for each in by_classes.values())
    with rc_context(
        {**colors, **ticks, "svg.hashsalt": "piaa", "svg.fonttype": "none", "font.size": 9}
    ):
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        first, second, third = figure.subplots(1, 3)
        series = {"score": "#d95f02", "aggregate": "#1f9e89", "add": "#7570b3"}
        for name, color in series.items():
            shares = [100 * getattr(c, name) for c in by_classes.values()]
            first.loglog(list(by_classes), shares, "o-", color=color, label=name)
        first.axhline(100 * MOST_SHARE, color=gray, linestyle=":")
        first.set(xlabel="classes", ylabel="% of encoding an image")
        first.legend(frameon=False)
        add = [100 * cost / encode for cost, _ in by_bank.values()]
        second.plot(list(by_bank), add, "o-", color=series["add"], label="add")
        second.set(
            xlabel="bank size K (80 classes)", ylabel="% of encoding an image", ylim=(0, None)
        )
        shares = [100 * cost / encode for cost in by_images.values()]
        third.semilogx(list(by_images), shares, "o-", color=series["add"])
        third.set(
            xlabel="images so far (80 classes)", ylabel="% of encoding an image", ylim=(0, None)
        )
        for axes in (first, second, third):
            axes.grid(True)
        figure.savefig(path, transparent=True, metadata={"Date": None})


@torch.inference_mode()
def ratios() -> dict[str, float]:
    few, many = costs(80, rounds=3), costs(10_000, n_batches=2, rounds=3)
    return {
        "learn: encoding an image, against adding it, 80 classes": 1 / few.add,
        "learn: encoding an image, against adding it, 10,000 classes": 1 / many.add,
        "score: encoding an image, against scoring it, 80 classes": 1 / few.score,
        "score: encoding an image, against scoring it, 10,000 classes": 1 / many.score,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--bank-batches", type=int, default=64, help="batches for each bank size")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    print(describe(), end="\n\n")
    print("| classes | encode, ms | add | add, reference | solve, s | score | aggregate |")
    print("|---|---|---|---|---|---|---|")
    by_classes = {}
    for n_classes in CLASSES:
        c = by_classes[n_classes] = costs(n_classes)
        shares = [f"{share:.2%}" for share in (c.add, c.add_reference)]
        more = [f"{share:.2%}" for share in (c.score, c.aggregate)]
        cells = [f"{n_classes:,}", f"{1e3 * c.encode:.0f}", *shares, f"{c.solve:.2f}", *more]
        print(f"| {' | '.join(cells)} |", flush=True)
    encode = median(each.encode for each in by_classes.values())
    by_bank = over_bank_sizes(options.bank_batches)
    print("\n| K | add | solve, s |\n|---|---|---|")
    for size, (add, solve) in by_bank.items():
        print(f"| {size:,} | {add / encode:.2%} | {solve:.2f} |")
    by_images = over_images(options.images)
    print("\n| images so far | add |\n|---|---|")
    for n_images, add in by_images.items():
        print(f"| {n_images:,} | {add / encode:.2%} |")
    if options.figure:
        draw(options.figure, by_classes, by_bank, by_images)
    most = by_classes[CLASSES[-1]]
    failed = [n for n in ("add", "score", "aggregate") if getattr(most, n) >= MOST_SHARE]
    ends = list(by_images.values())
    if ends[-1] > 1.15 * ends[0]:
        failed.append("the cost of an image grows with their number")
    if failed:
        sys.exit(f"does not hold: {', '.join(failed)}")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
