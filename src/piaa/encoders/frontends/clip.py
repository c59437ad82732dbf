"""Plain CLIP: the last block as it was trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.frontends.base import Frontend, LastBlock, Trunk


@dataclass(frozen=True, kw_only=True)
class Clip(Frontend):
    """Untouched last block: query-key attention, residual and MLP."""

    name: ClassVar[str] = "clip"
    summary: ClassVar[str] = "the last block untouched (Radford et al., 2021)"

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:  # noqa: ARG002
        # The class query is left to LastBlock.cls_token: one row, whoever the front-end is.
        q, k = last.turned_q, last.turned_k
        attended = F.scaled_dot_product_attention(q[:, :, 1:], k, last.v)
        return last.block.feed_forward(last.x[:, 1:] + last.block.merge(attended))
