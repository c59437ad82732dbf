"""The image transformer of CLIP: patches in, one vector per image and one per patch out.

Pre-norm blocks `x = x + attn(norm1 x); x = x + mlp(norm2 x)` behind a class token and learned
positions. The trunk (all blocks but the last) runs once; the last block is where the front-ends
differ, so it is handed to them unevaluated (`frontends.base.LastBlock`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piaa.encoders.architecture import Activation, Architecture, TowerShape
from piaa.encoders.frontends.base import Frontend, LastBlock, Rotate, Trunk

QUICK_GELU_SLOPE = 1.702


class Mlp(nn.Module):
    """Two linear layers around GELU or QuickGELU, `x * sigmoid(1.702 x)`.

    QuickGELU is evaluated as `silu(1.702 x) / 1.702` with both factors folded into the weights
    (`fold_quick_gelu`, once, after loading): one in-place pass over the widest tensor of the
    network in place of three.
    """

    def __init__(self, width: int, hidden: int, activation: Activation) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)
        self.activation = activation

    @torch.no_grad()
    def fold_quick_gelu(self) -> None:
        if self.activation == "quick_gelu":
            self.fc1.weight.mul_(QUICK_GELU_SLOPE)
            self.fc1.bias.mul_(QUICK_GELU_SLOPE)
            self.fc2.weight.div_(QUICK_GELU_SLOPE)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.fc1(x)
        if self.activation == "quick_gelu":
            return self.fc2(F.silu(hidden, inplace=True))  # type: ignore[no-any-return]
        return self.fc2(F.gelu(hidden))  # type: ignore[no-any-return]


class Block(nn.Module):
    """One transformer block, with its attention open to the front-ends.

    Sequences are (B, N, W); heads are (B, H, N, W / H).
    """

    def __init__(self, shape: TowerShape, mlp: nn.Module) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width, shape.norm_eps)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.norm2 = nn.LayerNorm(shape.width, shape.norm_eps)
        self.mlp = mlp

    def project(self, normed: Tensor, first: int, last: int) -> tuple[Tensor, ...]:
        """Heads of q (0), k (1), v (2) for `first <= i < last`, each (B, H, N, d), not rotated."""
        batch, length, width = normed.shape
        if (first, last) == (0, 3):
            packed: Tensor = self.qkv(normed)
        else:
            rows = slice(first * width, last * width)
            packed = F.linear(normed, self.qkv.weight[rows], self.qkv.bias[rows])
        heads = packed.view(batch, length, last - first, self.heads, width // self.heads)
        return heads.permute(2, 0, 3, 1, 4).unbind(0)

    def merge(self, heads: Tensor) -> Tensor:
        """Attended values (B, H, N, d) -> the attention's output (B, N, W)."""
        return self.out(self.concatenate(heads))  # type: ignore[no-any-return]

    def concatenate(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def feed_forward(self, x: Tensor) -> Tensor:
        """x + mlp(norm2 x)"""
        return x + self.mlp(self.norm2(x))  # type: ignore[no-any-return]

    def forward(
        self, x: Tensor, rotate: Rotate | None = None, *, causal: bool = False
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x (B, N, W) -> the block's output and its (q, k) before rotation, for whoever wants them."""
        q, k, v = self.project(self.norm1(x), 0, 3)
        turned_q, turned_k = (q, k) if rotate is None else (rotate(q), rotate(k))
        attended = F.scaled_dot_product_attention(turned_q, turned_k, v, is_causal=causal)
        return self.feed_forward(x + self.merge(attended)), (q, k)


class VisionTower(nn.Module):
    """Pixels -> class vector and patch vectors in the joint space, not yet of unit length."""

    def __init__(
        self,
        architecture: Architecture,
        blocks: list[Block],
        *,
        patch_bias: bool = False,
        pre_norm: bool = True,
        projection_bias: bool = False,
        rotary: Callable[[tuple[int, int], Tensor], Rotate] | None = None,
        resize_positions: Callable[[Tensor, tuple[int, int]], Tensor],
    ) -> None:
        super().__init__()
        width, eps = architecture.vision.width, architecture.vision.norm_eps
        self.patch, self.trained_grid = architecture.patch, architecture.grid
        self.rotary, self.resize_positions = rotary, resize_positions
        self.patch_embed = nn.Linear(3 * self.patch**2, width, bias=patch_bias)
        self.cls_token = nn.Parameter(torch.empty(width))
        self.positions = nn.Parameter(
            torch.empty(1 + architecture.grid[0] * architecture.grid[1], width)
        )
        self.pre_norm = nn.LayerNorm(width, eps) if pre_norm else nn.Identity()
        self.blocks = nn.ModuleList(blocks)
        self.post_norm = nn.LayerNorm(width, eps)
        self.projection = nn.Linear(width, architecture.embed_dim, bias=projection_bias)

    def embed(
        self, pixels: Tensor, positions: Tensor | None = None
    ) -> tuple[Tensor, tuple[int, int]]:
        """Pixels (B, 3, H, W) -> tokens (B, 1 + M, width), class token first, and the patch grid."""
        p = self.patch
        batch, channels, height, width = pixels.shape
        grid = (height // p, width // p)
        if positions is None:
            positions = self.positions_for(grid)
        tiles = pixels.view(batch, channels, grid[0], p, grid[1], p)
        # The patch convolution has stride = kernel: a plain product over flattened patches.
        patches = self.patch_embed(tiles.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))
        cls_token = (self.cls_token + positions[0]).expand(batch, 1, -1)
        return self.pre_norm(torch.cat([cls_token, patches + positions[1:]], dim=1)), grid

    def positions_for(self, grid: tuple[int, int]) -> Tensor:
        """Position embeddings (1 + M, W) of the class token and of the patches, row-major."""
        if grid == self.trained_grid:
            return self.positions
        cls, patches = self.positions[:1], self.positions[1:]
        image = patches.float().view(1, *self.trained_grid, -1).permute(0, 3, 1, 2)
        resized = self.resize_positions(image, grid).flatten(2)[0].T
        return torch.cat([cls, resized.to(cls.dtype)])

    def forward(
        self, pixels: Tensor, frontend: Frontend, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor, tuple[int, int]]:
        """Pixels (B, 3, H, W) -> cls (B, D), patches (B, M, D), grid (rows, columns).

        `positions` (1 + M, W) are those of `positions_for(grid)`, for callers that keep them.
        """
        x, grid = self.embed(pixels, positions)
        rotate = self.rotary(grid, x) if self.rotary else None
        trunk = Trunk(grid=grid, rotate=rotate)
        last_index = len(self.blocks) - 1
        for index in range(last_index):
            x, heads = self.blocks[index](x, rotate)
            if index in frontend.tapped_states:
                trunk.states[index] = x
            if index in frontend.tapped_heads:
                trunk.heads[index] = heads
        last = LastBlock(cast(Block, self.blocks[last_index]), x, rotate)
        tokens = frontend.patch_tokens(trunk, last)
        return self.finish(last.cls_token()), self.finish(tokens), grid

    def finish(self, tokens: Tensor) -> Tensor:
        """Final norm and projection into the joint space."""
        return self.projection(self.post_norm(tokens))  # type: ignore[no-any-return]


def resize_positions_as_reference(image: Tensor, grid: tuple[int, int]) -> Tensor:
    """Bicubic resize (1, W, g, g) -> (1, W, rows, columns) as the published front-ends do it.

    They pass a scale with 0.1 added to the target size, which was meant to guard a rounding but
    also shifts every sampling point: source = (i + 0.5) * g / (rows + 0.1) - 0.5.
    """
    rows, columns = image.shape[-2:]
    scale = ((grid[0] + 0.1) / rows, (grid[1] + 0.1) / columns)
    return F.interpolate(image, scale_factor=scale, mode="bicubic")


def clip_vision_tower(architecture: Architecture) -> VisionTower:
    shape = architecture.vision
    return VisionTower(
        architecture,
        [
            Block(shape, Mlp(shape.width, shape.hidden, architecture.activation))
            for _ in range(shape.depth)
        ],
        resize_positions=resize_positions_as_reference,
    )
