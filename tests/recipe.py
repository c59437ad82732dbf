"""Inputs of the recorded arrays in tests/data: synthetic checkpoints and images from a seed.

Drawn from numpy's RandomState, whose stream is frozen, in a fixed order: do not reorder the draws.
The recorded outputs are what the published implementations of each front-end give for these inputs
on a CPU in float32, after the final norm and the projection, before L2 normalization.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class _Draws:
    """Normal draws in order, collected under tensor names."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.RandomState(seed)
        self.state: dict[str, np.ndarray] = {}

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def put(self, name: str, *shape: int, scale: float = 1.0) -> None:
        self.state[name] = self.normal(*shape, scale=scale)

    def linear(
        self, name: str, rows: int, columns: int, bias: bool = True, gain: float = 1.0
    ) -> None:
        self.put(f"{name}.weight", rows, columns, scale=gain * columns**-0.5)
        if bias:
            self.put(f"{name}.bias", rows, scale=0.05)

    def norm(self, name: str, size: int) -> None:
        self.state[f"{name}.weight"] = 1 + self.normal(size, scale=0.1)
        self.put(f"{name}.bias", size, scale=0.05)

    def attention(self, name: str, size: int) -> None:
        self.put(f"{name}.in_proj_weight", 3 * size, size, scale=size**-0.5)
        self.put(f"{name}.in_proj_bias", 3 * size, scale=0.1)
        self.linear(f"{name}.out_proj", size, size, gain=0.5)

    def finish(self) -> dict[str, Tensor]:
        self.state["logit_scale"] = np.float32(np.log(100.0)).reshape(())
        return {name: torch.from_numpy(np.array(value)) for name, value in self.state.items()}


def clip_checkpoint(
    seed: int,
    *,
    width: int = 128,
    layers: int = 12,
    patch: int = 16,
    grid: int = 14,
    embed: int = 64,
    text_width: int = 64,
    text_layers: int = 2,
) -> dict[str, Tensor]:
    """A state dict in OpenAI's layout; heads are 64 wide."""
    draws = _Draws(seed)

    def block(prefix: str, size: int) -> None:
        draws.attention(f"{prefix}.attn", size)
        draws.norm(f"{prefix}.ln_1", size)
        draws.norm(f"{prefix}.ln_2", size)
        draws.linear(f"{prefix}.mlp.c_fc", 4 * size, size)
        draws.linear(f"{prefix}.mlp.c_proj", size, 4 * size, gain=0.5)

    draws.put("visual.conv1.weight", width, 3, patch, patch, scale=(3 * patch * patch) ** -0.5)
    draws.put("visual.class_embedding", width, scale=0.5)
    draws.put("visual.positional_embedding", grid * grid + 1, width, scale=0.3)
    draws.norm("visual.ln_pre", width)
    draws.norm("visual.ln_post", width)
    for index in range(layers):
        block(f"visual.transformer.resblocks.{index}", width)
    draws.put("visual.proj", width, embed, scale=width**-0.5)
    draws.put("token_embedding.weight", 49408, text_width, scale=0.02)
    draws.put("positional_embedding", 77, text_width, scale=0.01)
    for index in range(text_layers):
        block(f"transformer.resblocks.{index}", text_width)
    draws.norm("ln_final", text_width)
    draws.put("text_projection", text_width, embed, scale=text_width**-0.5)
    return draws.finish()


def eva_checkpoint(
    seed: int,
    *,
    width: int = 128,
    layers: int = 12,
    patch: int = 16,
    grid: int = 14,
    embed: int = 64,
    hidden: int = 341,
    text_width: int = 64,
    text_layers: int = 2,
) -> dict[str, Tensor]:
    """A state dict of EVA-02-CLIP in open_clip's layout; heads are 64 wide."""
    draws = _Draws(seed)
    trunk = "visual.trunk"
    draws.put(f"{trunk}.cls_token", 1, 1, width, scale=0.5)
    draws.put(f"{trunk}.pos_embed", 1, grid * grid + 1, width, scale=0.3)
    draws.put(
        f"{trunk}.patch_embed.proj.weight",
        width,
        3,
        patch,
        patch,
        scale=(3 * patch * patch) ** -0.5,
    )
    draws.put(f"{trunk}.patch_embed.proj.bias", width, scale=0.05)
    for index in range(layers):
        block = f"{trunk}.blocks.{index}"
        draws.norm(f"{block}.norm1", width)
        draws.linear(f"{block}.attn.q_proj", width, width)
        draws.linear(f"{block}.attn.k_proj", width, width, bias=False)
        draws.linear(f"{block}.attn.v_proj", width, width)
        draws.norm(f"{block}.attn.norm", width)
        draws.linear(f"{block}.attn.proj", width, width, gain=0.5)
        draws.norm(f"{block}.norm2", width)
        draws.linear(f"{block}.mlp.fc1_g", hidden, width)
        draws.linear(f"{block}.mlp.fc1_x", hidden, width)
        draws.norm(f"{block}.mlp.norm", hidden)
        draws.linear(f"{block}.mlp.fc2", width, hidden, gain=0.5)
    draws.norm(f"{trunk}.norm", width)
    draws.linear(f"{trunk}.head", embed, width)
    draws.put("text.token_embedding.weight", 49408, text_width, scale=0.02)
    draws.put("text.positional_embedding", 77, text_width, scale=0.01)
    for index in range(text_layers):
        block = f"text.transformer.resblocks.{index}"
        draws.norm(f"{block}.ln_1", text_width)
        draws.attention(f"{block}.attn", text_width)
        draws.norm(f"{block}.ln_2", text_width)
        draws.linear(f"{block}.mlp.c_fc", 4 * text_width, text_width)
        draws.linear(f"{block}.mlp.c_proj", text_width, 4 * text_width, gain=0.5)
    draws.norm("text.ln_final", text_width)
    draws.put("text.text_projection", text_width, embed, scale=text_width**-0.5)
    return draws.finish()


def pixels(seed: int, batch: int, height: int = 224, width: int = 224) -> Tensor:
    """Normalized pixels (batch, 3, height, width): smooth blobs and noise."""
    rng = np.random.RandomState(seed)
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    rows, columns = rows / height, columns / width
    out = np.zeros((batch, 3, height, width), np.float32)
    for image in out:
        for _ in range(12):
            x, y, size = rng.rand(), rng.rand(), 0.03 + 0.2 * rng.rand()
            blob = np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * size * size))
            image += rng.standard_normal((3, 1, 1)).astype(np.float32) * 1.5 * blob
        image += 0.15 * rng.standard_normal((3, height, width)).astype(np.float32)
    return torch.from_numpy(out)


def tokens() -> Tensor:
    """Token ids (2, 77) of "a photo of a cat" and "a photo of a dog", padded with 0."""
    rows = torch.zeros(2, 77, dtype=torch.int64)
    rows[0, :7] = torch.tensor([49406, 320, 1125, 539, 320, 2368, 49407])
    rows[1, :7] = torch.tensor([49406, 320, 1125, 539, 320, 1929, 49407])
    return rows
