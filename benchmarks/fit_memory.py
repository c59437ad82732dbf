"""Peak memory of filling the banks, at few and at many images.

    python benchmarks/fit_memory.py [--images 2000 50000]

Each size runs in a process of its own, because a peak never goes down. Batches of 8 x 196 synthetic
unit patches (D = 512, C = 80) are drawn, added under the default config and thrown away; the
classifier is solved at the end. "before" is taken after one small fit, so that it holds what the
libraries keep for themselves; "banks" is the vectors of C full banks, of the default's K.
Exits with an error if the peaks differ by more than 5 %.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa import pvcl
from piaa.config import Config

from machine import describe

BATCH, PATCHES, DIM, CLASSES = 8, 196, 512, 80


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fit(n_images: int, text: Tensor) -> None:
    random = torch.Generator().manual_seed(1)
    # One noise buffer, shifted and re-mixed: drawing 10^10 normal numbers would take an hour.
    noise = torch.randn(BATCH * PATCHES, DIM, generator=random) / DIM**0.5
    config = Config.auto()
    bank = pvcl.new_bank(text, config)
    for first in range(0, n_images, BATCH):
        n = min(BATCH, n_images - first)
        kind = torch.randint(CLASSES, (BATCH * PATCHES,), generator=random)
        strength = torch.rand(BATCH * PATCHES, 1, generator=random)
        patches = noise.roll(first // BATCH % DIM, dims=1).addcmul_(text[kind], strength)
        patches /= torch.linalg.vector_norm(patches, dim=1, keepdim=True)
        bank.update(patches.view(BATCH, PATCHES, DIM)[:n], torch.arange(first, first + n))
    _, report = pvcl.solve(bank, config)
    if not report.bank.min():
        raise SystemExit(
            "a class has no vectors: the synthetic patches are not what they should be"
        )


def measure(n_images: int) -> None:
    """Print the peak before and after a fit, in MB."""
    text = normalize(torch.randn(CLASSES, DIM, generator=torch.Generator().manual_seed(0)), dim=-1)
    fit(2 * BATCH, text)
    start = peak_megabytes()
    fit(n_images, text)
    print(start, peak_megabytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[2_000, 50_000])
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
        return
    print(describe())
    size = Config.auto().bank_size
    print(f"C = {CLASSES}, K = {size}, D = {DIM}, batches of {BATCH} x {PATCHES} patches")
    banks = CLASSES * size * DIM * 4 / 2**20
    print(f"{'images':>8s} {'before, MB':>11s} {'peak, MB':>9s} {'banks, MB':>10s} {'share':>7s}")
    peaks = []
    for n_images in options.images:
        command = [sys.executable, __file__, "--measure", str(n_images)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        start, peak = map(float, out.split())
        peaks.append(peak)
        share = banks / (peak - start)
        print(f"{n_images:8d} {start:11.0f} {peak:9.0f} {banks:10.0f} {share:7.0%}")
    spread = max(peaks) / min(peaks) - 1
    print(f"peaks differ by {spread:.1%} (at most 5 % is wanted)")
    if spread > 0.05:
        sys.exit(1)


if __name__ == "__main__":
    main()
