"""What EVA-02-CLIP does differently inside the same transformer.

2-D rotary positions on the queries and keys of the patches, a LayerNorm on the attended values
and one on the MLP's hidden layer ("sub-LN"), SwiGLU, no norm before the first block, biases in the
patch embedding and in the projection.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piaa.encoders.architecture import Architecture, TowerShape
from piaa.encoders.frontends.base import Rotate
from piaa.encoders.vit import Block, VisionTower

# Rotary angles are those of a 16 x 16 grid, stretched over whatever grid there is.
REFERENCE_GRID = 16
ROTARY_BASE = 10000.0


def rotary(grid: tuple[int, int], like: Tensor, head_width: int) -> Rotate:
    """Rotation of heads (B, H, N, d): the last M = rows * columns tokens turn, a class token does not.

    Neighbouring pairs of channels are rotated together; the first half of the channels by the row,
    the second by the column.
    """
    bands = head_width // 4
    frequencies = ROTARY_BASE ** (
        -torch.arange(bands, device=like.device, dtype=torch.float32) / bands
    )
    angles = []
    for axis, size in enumerate(grid):
        position = (
            torch.arange(size, device=like.device, dtype=torch.float32) / size * REFERENCE_GRID
        )
        along = position[:, None] * frequencies
        angles.append(along[:, None, :] if axis == 0 else along[None, :, :])
    angle = torch.cat([part.expand(*grid, bands) for part in angles], dim=-1).flatten(0, 1)
    cos, sin = angle.cos().to(like.dtype), angle.sin().to(like.dtype)

    def rotate(heads: Tensor) -> Tensor:
        # Counted from the front and without len(), so that an exported graph leaves the grid open.
        first = heads.shape[-2] - cos.shape[0]
        still, turning = heads[..., :first, :], heads[..., first:, :]
        even, odd = turning[..., 0::2], turning[..., 1::2]
        turned = torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)
        return torch.cat([still, turned], dim=-2)

    return rotate


class SwiGlu(nn.Module):
    """silu(gate x) * (value x), a LayerNorm on the hidden layer, and the way back."""

    def __init__(self, shape: TowerShape) -> None:
        super().__init__()
        self.gate_and_value = nn.Linear(shape.width, 2 * shape.hidden)
        self.norm = nn.LayerNorm(shape.hidden, shape.norm_eps)
        self.fc2 = nn.Linear(shape.hidden, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.gate_and_value(x).chunk(2, dim=-1)
        return self.fc2(self.norm(F.silu(gate).mul_(value)))  # type: ignore[no-any-return]


class EvaBlock(Block):
    """A block whose attended values pass a LayerNorm before the output projection.

    The key projection has no bias in the checkpoints; it is loaded as zero.
    """

    def __init__(self, shape: TowerShape) -> None:
        super().__init__(shape, SwiGlu(shape))
        self.inner_norm = nn.LayerNorm(shape.width, shape.norm_eps)

    def concatenate(self, heads: Tensor) -> Tensor:
        return self.inner_norm(super().concatenate(heads))  # type: ignore[no-any-return]


def resize_positions_antialiased(image: Tensor, grid: tuple[int, int]) -> Tensor:
    """Bicubic, antialiased resize (1, W, g, g) -> (1, W, rows, columns), as EVA's library does it."""
    return F.interpolate(image, size=grid, mode="bicubic", antialias=True)


def eva_vision_tower(architecture: Architecture) -> VisionTower:
    shape = architecture.vision
    head_width = shape.width // shape.heads
    return VisionTower(
        architecture,
        [EvaBlock(shape) for _ in range(shape.depth)],
        patch_bias=True,
        pre_norm=False,
        projection_bias=True,
        rotary=lambda grid, like: rotary(grid, like, head_width),
        resize_positions=resize_positions_antialiased,
    )
