"""ITACLIP (Aydın et al., 2025): correlative attention fused over several blocks, no last MLP.

Its image engineering and LLM texts belong to segmentation and are not part of the front-end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from piaa.encoders.frontends.base import LastBlock, SelfSimilarity, Trunk
from piaa.encoders.frontends.sclip import correlative
from piaa.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ItaClip(SelfSimilarity):
    """Half the last block's q-q + k-k attention, half the mean of that of middle blocks.

    The middle blocks run as they are; their q and k are those of that same run.

    Attributes:
        middle: Middle blocks, counted from 1 as in the paper.
    """

    name: ClassVar[str] = "itaclip"
    summary: ClassVar[str] = "q-q + k-k attention of middle and last blocks (Aydın et al., 2025)"
    # The authors publish 12 blocks only; 24 is the same relative depth.
    presets: ClassVar[Mapping[int, Mapping[str, Any]]] = {
        12: {"middle": (7, 8, 10)},
        24: {"middle": (14, 16, 20)},
    }

    middle: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "middle", tuple(self.middle))
        if not self.middle:
            raise InputError(
                "Option middle of front-end 'itaclip' is empty; name at least one block."
            )

    @property
    def tapped_heads(self) -> frozenset[int]:
        return frozenset(number - 1 for number in self.middle)

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:
        def attend(q: Tensor, k: Tensor) -> Tensor:
            return correlative(self.turned(q, trunk), self.turned(k, trunk), last.v)

        # Attention matrices are mixed and applied to one v, which is linear: mix the results.
        mixed = 0.5 * attend(last.q, last.k)
        for number in self.middle:
            mixed = mixed + (0.5 / len(self.middle)) * attend(*trunk.heads[number - 1])
        return last.x[:, 1:] + last.block.merge(mixed)
