"""Two passes through CLIP's image transformer that TagCLIP asks for and no front-end gives.

One returns what the blocks attend to beside the patches' vectors, at any size of the picture; the
other lets the class token look at chosen patches only.
"""

from __future__ import annotations

from copy import copy
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.frontends.base import LastBlock, Rotate, Trunk
from piaa.encoders.frontends.maskclip import MaskClip
from piaa.encoders.vit import Block, VisionTower


def with_bilinear_positions(tower: VisionTower) -> VisionTower:
    """The same tower, sharing its weights, with positions stretched bilinearly as TagCLIP does."""
    stretched = copy(tower)
    stretched.resize_positions = _resize_bilinear
    return stretched


def _resize_bilinear(image: Tensor, grid: tuple[int, int]) -> Tensor:
    return F.interpolate(image, size=grid, mode="bilinear", align_corners=False)


def attention_pass(
    tower: VisionTower, pixels: Tensor, *, first_block: int, votes: int
) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Patch vectors and how strongly each patch attends to each, for one picture.

    The vectors are MaskCLIP's: in the last block every patch attends to itself alone. A pair of
    patches is kept if its attention, averaged over heads, is above the mean of its block in at
    least `votes` of all blocks (the last one with its trained attention). The affinity of a kept
    pair is its mean attention over the blocks from `first_block` (0-based) to the last but one,
    that of any other pair is 0. Rows are not normalized.

    Args:
        pixels: (1, 3, H, W) normalized; sides are multiples of the patch.

    Returns:
        Vectors (M, D) float32 of any length, affinity (M, M) float32, and the grid.
    """
    x, grid = tower.embed(pixels)
    rotate = tower.rotary(grid, x) if tower.rotary else None
    n_patches = grid[0] * grid[1]
    counts = torch.zeros(n_patches, n_patches, dtype=torch.uint8, device=x.device)
    affinity = torch.zeros(n_patches, n_patches, device=x.device)
    *trunk, last_block = (cast(Block, block) for block in tower.blocks)
    for index, block in enumerate(trunk):
        weights, attended = _attend(*_heads(block, x, rotate))
        counts += weights > weights.mean()
        if index >= first_block:
            affinity += weights
        x = block.feed_forward(x + block.merge(attended))
    last = LastBlock(last_block, x, rotate)
    weights, _ = _attend(last.turned_q, last.turned_k, last.v)
    counts += weights > weights.mean()
    affinity *= (counts >= votes) / (len(trunk) - first_block)
    tokens = MaskClip().patch_tokens(Trunk(grid, rotate), last)
    return tower.finish(tokens)[0].float(), affinity, grid


def masked_class_vectors(tower: VisionTower, pixels: Tensor, visible: Tensor) -> Tensor:
    """Class vectors of pictures whose class token sees some of the patches only, in every block.

    Patches attend to everything, as trained.

    Args:
        pixels: (B, 3, H, W) normalized; sides are multiples of the patch.
        visible: (B, M) bool, the patches that the class token sees, besides itself.

    Returns:
        (B, D) float32 of any length.
    """
    x, grid = tower.embed(pixels)
    rotate = tower.rotary(grid, x) if tower.rotary else None
    sees = F.pad(visible, (1, 0), value=True)[:, None, None]
    *trunk, last = (cast(Block, block) for block in tower.blocks)
    for block in trunk:
        q, k, v = _heads(block, x, rotate)
        # The mask is the class token's alone: patches keep the fast attention without one.
        cls = F.scaled_dot_product_attention(q[:, :, :1], k, v, attn_mask=sees)
        patches = F.scaled_dot_product_attention(q[:, :, 1:], k, v)
        x = block.feed_forward(x + block.merge(torch.cat([cls, patches], dim=2)))
    q, k, v = _heads(last, x, rotate)
    cls = F.scaled_dot_product_attention(q[:, :, :1], k, v, attn_mask=sees)
    return tower.finish(last.feed_forward(x[:, :1] + last.merge(cls)))[:, 0].float()


def _heads(block: Block, x: Tensor, rotate: Rotate | None) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v (B, H, 1 + M, d) as the trained block uses them."""
    q, k, v = block.project(block.norm1(x), 0, 3)
    return (q, k, v) if rotate is None else (rotate(q), rotate(k), v)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention among the patches of one picture, (M, M) float32, averaged over heads, and the
    attended values of all tokens."""
    _, heads, length, width = q.shape
    total = torch.zeros(length, length, device=q.device)
    attended = torch.empty_like(v)
    # Head by head in the same memory, which stays in the cache: twice as fast as all heads at once.
    logits, weights = q.new_empty(2, length, length)
    for head in range(heads):
        torch.mm(q[0, head] * width**-0.5, k[0, head].T, out=logits)
        torch.softmax(logits, dim=1, out=weights)
        torch.mm(weights, v[0, head], out=attended[0, head])
        total += weights
    return total[1:, 1:] / heads, attended
