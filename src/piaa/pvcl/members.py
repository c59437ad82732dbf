"""The content of a bank, in canonical order."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROWS_AT_ONCE = 2048
_SCORES_AT_ONCE = 2**22


@dataclass(frozen=True)
class Members:
    """Bank vectors in canonical order: by class, then most confident first.

    Attributes:
        vectors: (N, D) float32, unit rows.
        label: (N,) int64, class of each vector.
        key: (N,) float64, lower is more confident; ascending within a class.
        image: (N,) int64, id of the image a vector came from.
        cell: (N,) int64, its index among that image's patches.
    """

    vectors: Tensor
    label: Tensor
    key: Tensor
    image: Tensor
    cell: Tensor

    def counts(self, n_classes: int) -> Tensor:
        """Vectors of each class, (C,) int64."""
        return torch.bincount(self.label, minlength=n_classes)

    def distinct_images(self, n_classes: int) -> Tensor:
        """Different images among the vectors of each class, (C,) int64."""
        return distinct_images(self.label, self.image, n_classes)

    def text_probability(self, text: Tensor, scale: float) -> Tensor:
        """p_ic: softmax over classes of `scale` * cosine, for each vector's own class.

        It is computed here and not stored, so that it can be had at a scale matched afterwards.

        Args:
            text: (C, D) float32 unit text prototypes.

        Returns:
            (N,) float32 in (0, 1].
        """
        return text_probability(self.vectors, self.label, text, scale)


@dataclass(frozen=True)
class Rows:
    """Some rows of a matrix, named and not copied; a part of them is gathered when asked for.

    Attributes:
        source: (S, D), on loan: do not keep it beyond the next change of its owner.
        index: (N,) int64 in [0, S).
    """

    source: Tensor
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, part: slice | Tensor) -> Tensor:
        return self.source.index_select(0, self.index[part])

    def only(self, part: Tensor) -> Rows:
        """The rows at the (P,) places `part`."""
        return Rows(self.source, self.index[part])


def distinct_images(label: Tensor, image: Tensor, n_classes: int) -> Tensor:
    """Different images, (N,) int64, among the vectors of each class, (N,) int64; gives (C,)."""
    order = lexsort(image, label)
    image, label = image[order], label[order]
    first = torch.ones_like(label, dtype=torch.bool)
    first[1:] = (image[1:] != image[:-1]) | (label[1:] != label[:-1])
    return torch.bincount(label[first], minlength=n_classes)


def text_probability(vectors: Tensor | Rows, label: Tensor, text: Tensor, scale: float) -> Tensor:
    """As `Members.text_probability`, of (N, D) vectors and their (N,) classes."""
    probability = torch.empty(len(label), device=text.device)
    prototypes = (text * scale).T.contiguous()
    step = scores_at_once(len(text))
    for start in range(0, len(label), step):
        part = slice(start, start + step)
        every = (vectors[part] @ prototypes).softmax(dim=1)
        probability[part] = every.gather(1, label[part, None]).squeeze(1)
    return probability


def scores_at_once(n_classes: int) -> int:
    """Vectors to score at a time, so that they and their scores stay within a few megabytes."""
    return max(1, min(_ROWS_AT_ONCE, _SCORES_AT_ONCE // n_classes))


def lexsort(*keys: Tensor) -> Tensor:
    """Indices that sort by the last key, then the one before it, and so on (as numpy.lexsort)."""
    order = keys[0].argsort(stable=True)
    for key in keys[1:]:
        order = order[key[order].argsort(stable=True)]
    return order
