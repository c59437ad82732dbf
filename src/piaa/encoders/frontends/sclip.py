"""SCLIP (Wang et al., 2024): correlative self-attention, q-q plus k-k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.frontends.base import LastBlock, SelfSimilarity, Trunk


def correlative(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(softmax(q q^T s) + softmax(k k^T s)) v without the attention matrix; rows sum to 2.

    q, k, v are (B, H, 1 + M, d); patches ask (not the class token), all tokens answer.
    """
    return F.scaled_dot_product_attention(q[:, :, 1:], q, v) + F.scaled_dot_product_attention(
        k[:, :, 1:], k, v
    )


@dataclass(frozen=True, kw_only=True)
class SClip(SelfSimilarity):
    """Last block with q-q and k-k attention added up; residual and MLP kept."""

    name: ClassVar[str] = "sclip"
    summary: ClassVar[str] = "q-q plus k-k attention in the last block (Wang et al., 2024)"

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:
        attended = correlative(self.turned(last.q, trunk), self.turned(last.k, trunk), last.v)
        return last.block.feed_forward(last.x[:, 1:] + last.block.merge(attended))
