"""NACLIP (Hajimiri et al., 2025): k-k attention drawn towards each patch's neighbourhood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.frontends.base import LastBlock, SelfSimilarity, Trunk
from piaa.errors import InputError


def neighborhood(grid: tuple[int, int], std: float, like: Tensor) -> Tensor:
    """exp(-distance^2 / (2 std^2)) between the cells of a grid: (M, M) in (0, 1]."""
    rows, columns = (torch.arange(n, device=like.device, dtype=torch.float32) for n in grid)
    cells = torch.cartesian_prod(rows, columns).view(-1, 2)
    squared = (cells[:, None] - cells[None]).square().sum(-1)
    return torch.exp(-squared / (2 * std**2)).to(like.dtype)


@dataclass(frozen=True, kw_only=True)
class NaClip(SelfSimilarity):
    """softmax(k k^T s + Gaussian neighbourhood) v in the last block, no residual, no MLP.

    Attributes:
        std: Width of the Gaussian in cells.
    """

    name: ClassVar[str] = "naclip"
    summary: ClassVar[str] = "k-k attention with a neighborhood bias (Hajimiri et al., 2025)"

    std: float = 5.0

    def __post_init__(self) -> None:
        if not self.std > 0:
            raise InputError(
                f"Option std of front-end 'naclip' must be positive, not {self.std!r}."
            )

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:
        k = self.turned(last.k, trunk)
        # The class token is no cell: it answers without a bias.
        bias = F.pad(neighborhood(trunk.grid, self.std, k), (1, 0))
        attended = F.scaled_dot_product_attention(k[:, :, 1:], k, last.v, attn_mask=bias)
        return last.block.merge(attended)
