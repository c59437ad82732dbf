"""Speed of PVCL and PAA: banks, solve, aggregation, against encoding and a plain transcription.

    python benchmarks/pvcl.py [--threads N] [--batches N]

The default of 2,566 batches is 82,112 images, as many as COCO 2014 has to learn from (82,081), whose
classes, bank and width these are; what the first 10,016 take is told too. `encode` is the matrix
products of a ViT-B/16 on 32 images (197 tokens, 12 blocks) and nothing else, so the shares of it
are upper bounds. Gains are against `published` (benchmarks/published.py), the published procedure
step by step, on the same batches in the same process. The sides take turns, each batch counts with
its best time of some runs, and its cut every 20 batches and our prunings are in the means. Inputs
are synthetic unit features around class prototypes.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from statistics import fmean

import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa import paa, pvcl
from piaa.config import Config
from published import PublishedLearning, published_scores

from machine import describe, side_by_side, times_as_fast

BATCH, PATCHES, DIM, CLASSES = 32, 196, 512, 80
FILLING = 8  # batches until C * K patches have come
SOME = 313  # batches that hold 10,016 images
COCO = 2566  # and 82,112


def stream(n_batches: int, text: Tensor, seed: int = 0) -> Iterator[Tensor]:
    """Patches around one class prototype each, with a common offset and noise."""
    random = torch.Generator().manual_seed(2**20 + seed)  # not the seed of the prototypes
    gap = normalize(torch.randn(DIM, generator=random), dim=0)
    # Drawn rows of it, turned, are as good as new ones, and there in a quarter of the time.
    noise = 0.6 * torch.randn(4 * BATCH * PATCHES, DIM, generator=random) / DIM**0.5
    for _ in range(n_batches):
        kind = torch.randint(len(text), (BATCH * PATCHES,), generator=random)
        strength = torch.rand(BATCH * PATCHES, 1, generator=random)
        drawn = torch.randint(len(noise), (BATCH * PATCHES,), generator=random)
        turn = int(torch.randint(DIM, (), generator=random))
        rows = noise.index_select(0, drawn).roll(turn, dims=1).add_(0.9 * gap)
        rows += 0.5 * strength * text.index_select(0, kind)
        yield normalize(rows, dim=-1).view(BATCH, PATCHES, DIM)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def encode_32_images() -> None:
    """The matrix products of a ViT-B/16: patch embedding, 12 x (qkv, attention, out, MLP)."""
    tokens, width = 197, 768
    x = torch.randn(BATCH * tokens, width)
    weights = [torch.randn(width, n) * 0.01 for n in (3 * width, width, 4 * width)]
    down = torch.randn(4 * width, width) * 0.01
    x @ weights[1]
    for _ in range(12):
        q, k, v = (
            part.reshape(BATCH, tokens, 12, 64).transpose(1, 2)
            for part in (x @ weights[0]).chunk(3, 1)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        out = mixed.transpose(1, 2).reshape(-1, width) @ weights[1]
        x = normalize((out @ weights[2]) @ down, dim=-1)


Times = dict[str, list[float]]


def learning(n_batches: int, rounds: int, text: Tensor) -> tuple[Times, dict[str, float]]:
    """Seconds of each batch, and of the solve, for the published procedure and two presets.

    The sides take turns at every batch, first one and then another of them in front, as whoever is
    finds the batch in the cache; and each batch counts with its best of all rounds.
    """
    auto = replace(Config.auto(), bank_size=512)  # as the others have it
    configs = {"reference": Config.reference("coco"), "auto": auto}
    spent = {name: [math.inf] * n_batches for name in ("published", *configs)}
    closing = dict.fromkeys(spent, math.inf)
    for turn in range(rounds):
        banks = {name: pvcl.new_bank(text, config) for name, config in configs.items()}
        published = PublishedLearning(text, size=512, scale=60.0, purify_scale=0.01)
        for index, patches in enumerate(stream(n_batches, text)):
            ids = torch.arange(index * BATCH, (index + 1) * BATCH)
            steps = {"published": partial(published.update, patches)}
            steps |= {name: partial(bank.update, patches, ids) for name, bank in banks.items()}
            names = list(steps)
            first = (index + turn) % len(names)
            for name in names[first:] + names[:first]:
                spent[name][index] = min(spent[name][index], seconds(steps[name]))
        # What either does once, with the last of the stream: the best of three solves would hide it.
        last = {"published": published.cut, **{name: bank.borrow for name, bank in banks.items()}}
        closing = {name: min(closing[name], seconds(last[name])) for name in spent}
    runs = [published.solve, *(partial(pvcl.solve, banks[n], configs[n]) for n in configs)]
    solving = zip(spent, side_by_side(*runs, rounds=3), strict=True)
    return spent, {name: closing[name] + each for name, each in solving}


def whole_learning(
    spent: Times, solving: dict[str, float], n_batches: int = COCO
) -> dict[str, float]:
    """Seconds to learn from the first `n_batches` batches."""
    return {name: sum(times[:n_batches]) + solving[name] for name, times in spent.items()}


def print_learning(spent: Times, solving: dict[str, float], encoding: float) -> None:
    for name, times in spent.items():
        gain = fmean(spent["published"]) / fmean(times)
        report(f"add a batch, mean of all {len(times)}, {name}", fmean(times), encoding, gain)
    for name, times in spent.items():
        gain = fmean(spent["published"][:FILLING]) / fmean(times[:FILLING])
        report(f"  of these the first {FILLING}, {name}", fmean(times[:FILLING]), encoding, gain)
    for name, each in solving.items():
        report(f"solve, {name}", each, None, solving["published"] / each)
    n_batches = len(spent["published"])
    for first in sorted({min(SOME, n_batches), n_batches}):
        whole = whole_learning(spent, solving, first)
        for name, total in whole.items():
            gain = whole["published"] / total
            report(f"learn from {BATCH * first:,} images, {name}", total, None, gain)


def scoring(n_classes: int, text: Tensor) -> tuple[Callable[[], object], Callable[[], object]]:
    """The reference form of 32 images for `n_classes` classes: ours, and the published steps."""
    config = Config.reference("coco")
    patches = next(stream(1, text, seed=1))
    cls = normalize(patches.mean(dim=1), dim=-1)
    words = normalize(torch.randn(n_classes, DIM), dim=-1)
    head = pvcl.Classifier(words.T.contiguous() * 30, torch.zeros(n_classes))
    theirs = partial(
        published_scores,
        patches,
        cls,
        words,
        head.weight,
        head.bias,
        divisor=config.score_divisor,
        patch_scale=config.patch_scale,
        cls_scale=config.cls_scale,
        alpha=config.alpha,
    )
    return partial(paa.aggregate, patches, cls, words, head, config), theirs


@torch.inference_mode()
def ratios() -> dict[str, float]:
    torch.manual_seed(0)
    text = normalize(torch.randn(CLASSES, DIM), dim=-1)
    spent, solving = learning(SOME, 2, text)
    whole = whole_learning(spent, solving)
    found = {}
    for name, preset in (("auto", "auto"), ("reference", "reference preset")):
        gain = whole["published"] / whole[name]
        found[f"learn: 10,000 images, {preset}, against published"] = gain
        gain = solving["published"] / solving[name]
        found[f"learn: the solve alone, {preset}, against published"] = gain
    for n_classes, rounds in ((CLASSES, 21), (10_000, 5)):
        gain = times_as_fast(*scoring(n_classes, text), rounds=rounds)
        found[f"score: reference preset, {n_classes:,} classes, against published"] = gain
    return found


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batches", type=int, default=COCO, help="batches of 32 images to stream")
    parser.add_argument("--rounds", type=int, default=2, help="runs to take each best time from")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(describe())
    print(f"batch {BATCH} x {PATCHES} patches, D = {DIM}, C = {CLASSES}, K = 512\n")
    (encoding,) = side_by_side(encode_32_images, rounds=2)
    print(f"{'encode 32 images, matrix products of B/16':52s} {encoding * 1e3:9.1f} ms")
    text = normalize(torch.randn(CLASSES, DIM), dim=-1)
    print_learning(*learning(options.batches, options.rounds, text), encoding)
    for n_classes in (CLASSES, 10_000):
        ours, theirs = scoring(n_classes, text)
        each, other = side_by_side(ours, theirs, rounds=20 if n_classes == CLASSES else 3)
        report(f"aggregate 32 images, C = {n_classes:,}", each, encoding, other / each)


def report(name: str, seconds: float, encoding: float | None, gain: float | None) -> None:
    share = f"{seconds / encoding:7.2%} of encoding" if encoding else ""
    times = f"{gain:6.1f} x published" if gain else ""
    print(f"{name:52s} {seconds * 1e3:9.1f} ms  {share:20s} {times}")


if __name__ == "__main__":
    main()
