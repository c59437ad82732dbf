"""Random weights in OpenAI's checkpoint layout: for smoke runs, benchmarks and tests.

The features mean nothing; shapes, cost and numerical range are those of a real model.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def synthetic_checkpoint(
    *,
    seed: int = 0,
    width: int = 768,
    depth: int = 12,
    patch: int = 16,
    grid: int = 14,
    embed_dim: int = 512,
    text_width: int = 512,
    text_depth: int = 12,
) -> dict[str, Tensor]:
    """A state dict, float32, of the size of ViT-B/16 unless told otherwise."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    state: dict[str, Tensor] = {}

    def linear(name: str, rows: int, columns: int, gain: float = 1.0) -> None:
        state[f"{name}.weight"] = normal(rows, columns, scale=gain * columns**-0.5)
        state[f"{name}.bias"] = normal(rows, scale=0.05)

    def norm(name: str, size: int) -> None:
        state[f"{name}.weight"] = 1 + normal(size, scale=0.1)
        state[f"{name}.bias"] = normal(size, scale=0.05)

    def tower(prefix: str, size: int, blocks: int) -> None:
        for index in range(blocks):
            block = f"{prefix}.resblocks.{index}"
            norm(f"{block}.ln_1", size)
            state[f"{block}.attn.in_proj_weight"] = normal(3 * size, size, scale=size**-0.5)
            state[f"{block}.attn.in_proj_bias"] = normal(3 * size, scale=0.1)
            linear(f"{block}.attn.out_proj", size, size, gain=0.5)
            norm(f"{block}.ln_2", size)
            linear(f"{block}.mlp.c_fc", 4 * size, size)
            linear(f"{block}.mlp.c_proj", size, 4 * size, gain=0.5)

    state["visual.conv1.weight"] = normal(width, 3, patch, patch, scale=(3 * patch**2) ** -0.5)
    state["visual.class_embedding"] = normal(width, scale=0.5)
    state["visual.positional_embedding"] = normal(grid**2 + 1, width, scale=0.3)
    norm("visual.ln_pre", width)
    norm("visual.ln_post", width)
    tower("visual.transformer", width, depth)
    state["visual.proj"] = normal(width, embed_dim, scale=width**-0.5)
    state["token_embedding.weight"] = normal(49408, text_width, scale=0.02)
    state["positional_embedding"] = normal(77, text_width, scale=0.01)
    tower("transformer", text_width, text_depth)
    norm("ln_final", text_width)
    state["text_projection"] = normal(text_width, embed_dim, scale=text_width**-0.5)
    state["logit_scale"] = torch.tensor(math.log(100.0))
    # OpenAI's own files carry these three sizes, by which they are told from open_clip's.
    state["input_resolution"] = torch.tensor(grid * patch)
    state["context_length"] = torch.tensor(77)
    state["vocab_size"] = torch.tensor(49408)
    return state
