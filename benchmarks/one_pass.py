"""One pass for class vector and patches, against two full passes, in one run on random weights.

    python benchmarks/one_pass.py [--batch 8] [--frontend sc-clip] [--rounds 5]

Two passes are what the published code runs: all blocks as trained for the class vector, then the
trunk again and the front-end for the patches. Both use this package's blocks, so the ratio shows
the sharing alone.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor

from b16 import random_encoder
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.frontends.base import LastBlock, Trunk
from piaa.encoders.vit import VisionTower

from machine import describe, matmul_peak, side_by_side

# Multiply-adds of ViT-B/16 at 224 px with SC-CLIP: shared trunk, class query, patch tail.
GMAC = {"trunk": 16.11, "sc-clip": 17.65}


def run_trunk(tower: VisionTower, pixels: Tensor, taps: frozenset[int]) -> tuple[Trunk, LastBlock]:
    x, grid = tower.embed(pixels)
    trunk = Trunk(grid=grid, rotate=None)
    for index, block in enumerate(tower.blocks[:-1]):
        x, _ = block(x)
        if index in taps:
            trunk.states[index] = x
    return trunk, LastBlock(tower.blocks[-1], x, None)


@torch.no_grad()
def two_passes(encoder: ClipEncoder, pixels: Tensor) -> tuple[Tensor, Tensor]:
    tower = encoder.vision
    x, _ = tower.embed(pixels)
    for block in tower.blocks:
        x, _ = block(x)
    cls = tower.finish(x[:, 0])
    trunk, last = run_trunk(tower, pixels, encoder.frontend.tapped_states)
    return cls, tower.finish(encoder.frontend.patch_tokens(trunk, last))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frontend", default="sc-clip")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    encoder = random_encoder(options.frontend)
    tower, frontend = encoder.vision, encoder.frontend
    pixels = torch.randn(options.batch, 3, 224, 224)
    taps = frontend.tapped_states

    with torch.no_grad():
        trunk, last = run_trunk(tower, pixels, taps)
        cls, patches, _ = tower(pixels, frontend)
        apart = two_passes(encoder, pixels)
        difference = max((cls - apart[0]).abs().max(), (patches - apart[1]).abs().max())

        one, two, trunk_only, tail = side_by_side(
            lambda: tower(pixels, frontend),
            lambda: two_passes(encoder, pixels),
            lambda: run_trunk(tower, pixels, taps),
            lambda: frontend.patch_tokens(trunk, LastBlock(last.block, last.x, None)),
            rounds=options.rounds,
        )
        peak = matmul_peak()

    print(describe())
    print(f"ViT-B/16 size, random weights, {options.frontend}, batch {options.batch}, float32")
    print(f"{'':34}{'ms/image':>10}{'ratio':>8}")
    for name, seconds in (
        ("two full passes", two),
        ("one pass", one),
        ("  shared trunk alone", trunk_only),
        ("  front-end's tail alone", tail),
    ):
        print(f"{name:34}{1e3 * seconds / options.batch:10.1f}{two / seconds:8.2f}")
    print(f"one pass is {two / one:.2f} times as fast; largest difference {difference:.1e}")
    print(f"the tail costs {100 * tail / trunk_only:.1f} % of the trunk")
    share = 1e9 * GMAC["trunk"] * options.batch / trunk_only / peak
    print(
        f"matmul peak {2 * peak / 1e9:.0f} GFLOP/s; the trunk runs at {100 * share:.0f} % of it",
        end="",
    )
    if options.frontend in GMAC:
        share = 1e9 * GMAC[options.frontend] * options.batch / one / peak
        print(f", the whole pass at {100 * share:.0f} %", end="")
    print()


if __name__ == "__main__":
    main()
