"""ClearCLIP (Lan et al., 2024): q-q attention, no residual, no MLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.frontends.base import LastBlock, SelfSimilarity, Trunk


@dataclass(frozen=True, kw_only=True)
class ClearClip(SelfSimilarity):
    """The last block's q-q attention output alone."""

    name: ClassVar[str] = "clearclip"
    summary: ClassVar[str] = "q-q attention, no residual, no MLP (Lan et al., 2024)"

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:
        q = self.turned(last.q, trunk)
        return last.block.merge(F.scaled_dot_product_attention(q[:, :, 1:], q, last.v))
