"""MaskCLIP (Zhou et al., 2022): every patch attends to itself alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from piaa.encoders.frontends.base import Frontend, LastBlock, Trunk


@dataclass(frozen=True, kw_only=True)
class MaskClip(Frontend):
    """Identity attention in the last block.

    Attributes:
        residual: Keep the block's residual and MLP, as the authors do. Without them it is the
            variant that later papers compare with.
    """

    name: ClassVar[str] = "maskclip"
    summary: ClassVar[str] = "values in place of attention in the last block (Zhou et al., 2022)"

    residual: bool = True

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:  # noqa: ARG002
        values = last.block.merge(last.v[:, :, 1:])
        return last.block.feed_forward(last.x[:, 1:] + values) if self.residual else values
