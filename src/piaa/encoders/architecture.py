"""What a checkpoint's tensors say about the model they make."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Family = Literal["vit", "eva02"]
Activation = Literal["quick_gelu", "gelu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)

# Every published CLIP and EVA-02-CLIP has heads of this width; tensors do not show it.
HEAD_WIDTH = 64


@dataclass(frozen=True)
class TowerShape:
    """Size of one transformer."""

    width: int
    depth: int
    heads: int
    hidden: int
    norm_eps: float = 1e-5


@dataclass(frozen=True)
class Architecture:
    """Shape of a CLIP-like model. `activation` is that of the text tower and, for ViT, of both."""

    family: Family
    activation: Activation
    embed_dim: int
    patch: int
    grid: tuple[int, int]
    vision: TowerShape
    text: TowerShape
    context_length: int
    vocabulary: int

    @property
    def image_size(self) -> tuple[int, int]:
        """(rows, columns) in pixels that the position embeddings were trained for."""
        return self.grid[0] * self.patch, self.grid[1] * self.patch

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def describe(self) -> str:
        v, t = self.vision, self.text
        return (
            f"{self.family} {v.depth}x{v.width}, {v.heads} heads, patch {self.patch}, "
            f"grid {self.grid[0]}x{self.grid[1]}, text {t.depth}x{t.width}, "
            f"embedding {self.embed_dim}, {self.activation}"
        )
