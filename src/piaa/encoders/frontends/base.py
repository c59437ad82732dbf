"""What every front-end shares: the trunk's outputs, the unevaluated last block, options.

A front-end is a published way to read patch tokens from a frozen transformer. It changes the last
block only, so the trunk runs once for the class vector and the patches together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch.nn.functional as F
from torch import Tensor

from piaa.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from piaa.encoders.vit import Block

Rotate = Callable[[Tensor], Tensor]


@dataclass
class Trunk:
    """What the blocks before the last one left behind.

    states[l]: output of block l (0-based), (B, 1 + M, W); heads[l]: its q and k, (B, H, 1 + M, d),
    before rotation. Only what the front-end taps is kept. `rotate` is None without rotary positions.
    """

    grid: tuple[int, int]
    rotate: Rotate | None
    states: dict[int, Tensor] = field(default_factory=dict)
    heads: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


class LastBlock:
    """The last block with its input; every part is computed on first use and only once.

    q, k, v are (B, H, 1 + M, d), class token first, not rotated; `x` is the input (B, 1 + M, W).
    """

    def __init__(self, block: Block, x: Tensor, rotate: Rotate | None) -> None:
        self.block, self.x, self._rotate = block, x, rotate

    @cached_property
    def normed(self) -> Tensor:
        return self.block.norm1(self.x)  # type: ignore[no-any-return]

    @cached_property
    def q(self) -> Tensor:
        return self.block.project(self.normed, 0, 1)[0]

    @cached_property
    def _k_and_v(self) -> tuple[Tensor, ...]:
        return self.block.project(self.normed, 1, 3)

    @property
    def k(self) -> Tensor:
        return self._k_and_v[0]

    @property
    def v(self) -> Tensor:
        return self._k_and_v[1]

    @cached_property
    def turned_q(self) -> Tensor:
        """q as the trained block uses it."""
        return self.q if self._rotate is None else self._rotate(self.q)

    @cached_property
    def turned_k(self) -> Tensor:
        """k as the trained block uses it."""
        return self.k if self._rotate is None else self._rotate(self.k)

    def cls_token(self) -> Tensor:
        """The class token behind the untouched block, (B, W): only its own query is evaluated.

        A class token is never rotated, so its query can come straight from the projection.
        """
        q = (
            self.q[:, :, :1]
            if "q" in self.__dict__
            else self.block.project(self.normed[:, :1], 0, 1)[0]
        )
        attended = F.scaled_dot_product_attention(q, self.turned_k, self.v)
        return self.block.feed_forward(self.x[:, :1] + self.block.merge(attended))[:, 0]


@dataclass(frozen=True, kw_only=True)
class Frontend(ABC):
    """Options of one front-end and how it reads patch tokens.

    Fields are the options. A field without a default depends on the model's depth and gets its
    value from `presets[depth]`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    presets: ClassVar[Mapping[int, Mapping[str, Any]]] = {}

    @property
    def tapped_states(self) -> frozenset[int]:
        """Blocks (0-based, none the last) whose outputs `patch_tokens` reads."""
        return frozenset()

    @property
    def tapped_heads(self) -> frozenset[int]:
        """Blocks (0-based, none the last) whose q and k `patch_tokens` reads."""
        return frozenset()

    @abstractmethod
    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:
        """Patch tokens (B, M, W) before the final norm and projection."""

    @classmethod
    def for_depth(cls, depth: int, options: Mapping[str, Any] | None = None) -> Self:
        """The front-end with its preset for `depth` blocks, single options overridden."""
        given = dict(options or {})
        known = [f.name for f in fields(cls)]
        for option in given:
            if option not in known:
                raise UnknownNameError(f"option of front-end {cls.name!r}", option, known)
        values = {**cls.presets.get(depth, {}), **given}
        missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in values]
        if missing:
            raise InputError(
                f"Front-end {cls.name!r} has no preset for a model of {depth} blocks (presets: "
                f"{', '.join(map(str, cls.presets))} blocks). Pass the options that depend on depth "
                f"yourself: frontend_options=dict({', '.join(f'{m}=...' for m in missing)})."
            )
        return cls(**values)

    def check(self, depth: int, *, rotary_model: bool) -> None:  # noqa: ARG002 (for subclasses)
        """Refuse options that point at what the model does not have."""
        for index in sorted(self.tapped_states | self.tapped_heads):
            if not 0 <= index < depth - 1:
                raise InputError(
                    f"Front-end {self.name!r} reads block {index} (counted from 0), but a model of "
                    f"{depth} blocks offers 0 to {depth - 2} before its last one."
                )

    def options(self) -> dict[str, Any]:
        """All options as plain values, for reports and saved models."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SelfSimilarity(Frontend):
    """A front-end that compares queries with queries or keys with keys.

    Attributes:
        rotary: On models with rotary positions, compare them rotated, which is what a drop-in
            change of the attention does and favors near patches; False compares content only.
    """

    rotary: bool = True

    def turned(self, heads: Tensor, trunk: Trunk) -> Tensor:
        """Heads to compare: rotated where the model rotates and `rotary` is on."""
        return trunk.rotate(heads) if trunk.rotate is not None and self.rotary else heads

    def check(self, depth: int, *, rotary_model: bool) -> None:
        super().check(depth, rotary_model=rotary_model)
        if not self.rotary and not rotary_model:
            raise InputError(
                f"Option rotary=False of front-end {self.name!r} needs a model with rotary positions "
                "(EVA-02); this one has none. Leave the option out."
            )
