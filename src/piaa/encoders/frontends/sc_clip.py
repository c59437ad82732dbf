"""SC-CLIP (Bai et al., 2024): outlier tokens repaired, similarities of middle blocks as attention.

Letters refer to the steps of the published inference, which is defined for one image: everything
here is per image, also in a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.frontends.base import LastBlock, SelfSimilarity, Trunk
from piaa.encoders.frontends.outliers import find_outliers, repair
from piaa.errors import InputError, UnknownNameError

SHARPNESS = 3.0


def cosines(tokens: Tensor) -> Tensor:
    """Cosine similarities (B, M, M) float32 of tokens (B, M, W)."""
    unit = F.normalize(tokens.float(), dim=-1)
    return unit @ unit.transpose(1, 2)


def smoothing(similarity: Tensor, floor: float) -> Tensor:
    """Similarities below `floor` set to 0, rows summing to 1: (B, M, M)."""
    kept = similarity.where(similarity >= floor, 0)
    return kept / (kept.sum(-1, keepdim=True) + 1e-6)


def similarity_attention(similarity: Tensor) -> Tensor:
    """softmax over the entries above the image's own mean, 3 times their excess: (B, M, M)."""
    excess = SHARPNESS * (similarity - similarity.mean(dim=(1, 2), keepdim=True))
    return excess.masked_fill(excess < 0, -torch.inf).softmax(-1)


@dataclass(frozen=True, kw_only=True)
class ScClip(SelfSimilarity):
    """Self-calibrated CLIP. Blocks are counted from 0, as in the published code.

    Attributes:
        pre: Block whose (repaired) outputs give the similarities that steer the last attention.
        post: Block whose outputs give the similarities that smooth the result.
        multi: First and one past the last block summed up as the second, multi-level input.
        cls_residual: Weight of the class token added to every patch.
        floor: Similarities below it count as none when smoothing.
        lof: "reference" (the published code's outlier score) or "textbook".
        neighbors: Neighbors of the outlier score.
        contamination: Share of an image's tokens taken for outliers.
    """

    name: ClassVar[str] = "sc-clip"
    summary: ClassVar[str] = (
        "outliers repaired, middle similarities as attention (Bai et al., 2024)"
    )
    presets: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        12: {"pre": 8, "post": 3, "multi": (3, 10), "cls_residual": 0.3},
        24: {"pre": 16, "post": 6, "multi": (8, 19), "cls_residual": 0.1},
    }

    pre: int
    post: int
    multi: tuple[int, int]
    cls_residual: float
    floor: float = 0.4
    lof: Literal["reference", "textbook"] = "reference"
    neighbors: int = 30
    contamination: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "multi", tuple(self.multi))
        if self.lof not in ("reference", "textbook"):
            raise UnknownNameError(
                "outlier score (option lof)", self.lof, ["reference", "textbook"]
            )
        if len(self.multi) != 2 or self.multi[0] >= self.multi[1]:
            raise InputError(
                f"Option multi must be (first, one past the last), not {self.multi!r}."
            )
        if self.neighbors < 1 or not 0 < self.contamination < 1:
            raise InputError(
                "Options neighbors >= 1 and 0 < contamination < 1 are needed, not "
                f"{self.neighbors!r} and {self.contamination!r}."
            )

    @property
    def tapped_states(self) -> frozenset[int]:
        return frozenset({self.pre, self.post, *range(*self.multi)})

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:
        x = last.x[:, 1:]
        if x.shape[1] < 2:
            raise InputError(
                f"Front-end 'sc-clip' compares patches: a grid of {trunk.grid[0]} x {trunk.grid[1]} "
                "has none to compare. Use a larger image_size."
            )
        outliers = find_outliers(  # (b)
            x,
            neighbors=self.neighbors,
            contamination=self.contamination,
            textbook=self.lof == "textbook",
        )
        mend = repair(outliers, trunk.grid)  # (c)
        middle = cosines(mend @ trunk.states[self.pre][:, 1:].float())
        steer = similarity_attention(middle).to(x.dtype)
        # (d) and (c) are both linear in the tokens: one product with the small matrices first.
        deep = (smoothing(middle, self.floor) @ mend).to(x.dtype) @ x
        levels = reduce(torch.add, (trunk.states[index] for index in range(*self.multi)))

        read = self._attend(deep, last.x[:, :1], steer, trunk, last)  # (e)
        read = read + self._attend(levels[:, 1:], levels[:, :1], steer, trunk, last)  # (g)
        # (f) smooths both readings with the same matrix, so once is enough for their sum.
        return smoothing(cosines(trunk.states[self.post][:, 1:]), self.floor).to(x.dtype) @ read

    def _attend(
        self, patches: Tensor, cls: Tensor, steer: Tensor, trunk: Trunk, last: LastBlock
    ) -> Tensor:
        """Half similarity, half k-k attention of the last block, without the class token, plus it."""
        block = last.block
        k, v = block.project(block.norm1(patches), 1, 3)
        k = self.turned(k, trunk)
        # All heads share the similarities: one product over the full width, not one per head.
        steered = (steer @ v.transpose(1, 2).flatten(2)).view(v.transpose(1, 2).shape)
        attended = F.scaled_dot_product_attention(k, k, v) + steered.transpose(1, 2)
        return block.merge(0.5 * attended) + self.cls_residual * cls
