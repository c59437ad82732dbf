"""A small network in the layout of the published ones."""

from __future__ import annotations

import torch
from torch import Tensor

TINY_REPEATS = (1, 2, 1, 2, 1, 2, 1)


def tiny_state(seed: int = 0) -> dict[str, Tensor]:
    """A small network with random weights in the published layout and the published strides."""
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}

    def add(conv: str, norm: str, out: int, into: int, kernel: int) -> None:
        scale = (into * kernel**2) ** -0.5
        shape = (out, into, kernel, kernel)
        state[f"{conv}.weight"] = torch.randn(shape, generator=generator) * scale
        state[f"{norm}.weight"] = torch.rand(out, generator=generator) + 0.5
        state[f"{norm}.bias"] = torch.randn(out, generator=generator) * 0.3
        state[f"{norm}.running_mean"] = torch.randn(out, generator=generator) * 0.3
        state[f"{norm}.running_var"] = torch.rand(out, generator=generator) + 0.5

    add("_conv_stem", "_bn0", 8, 3, 3)
    width, block = 8, 0
    kernels, widths = (3, 3, 5, 3, 5, 5, 3), (4, 6, 8, 8, 10, 12, 16)
    for kernel, out, n in zip(kernels, widths, TINY_REPEATS, strict=True):
        for _ in range(n):
            name, inner = f"_blocks.{block}.", width if block == 0 else 3 * width
            if block:
                add(f"{name}_expand_conv", f"{name}_bn0", inner, width, 1)
            add(f"{name}_depthwise_conv", f"{name}_bn1", inner, 1, kernel)
            add(f"{name}_project_conv", f"{name}_bn2", out, inner, 1)
            width, block = out, block + 1
    add("_conv_head", "_bn1", 1280, width, 1)
    state["_fc.weight"] = torch.randn(1000, 1280, generator=generator)
    return state
