"""What piaa says of one image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from piaa.classes.class_list import ClassList
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError
from piaa.heatmaps import on_image
from piaa.scoring import HeatmapKind, Scorer


@dataclass(frozen=True, eq=False)
class Prediction:
    """Scores, tags and heatmaps of one image.

    Attributes:
        scores: (C,) float32 in [0, 1], in the order of the classes. They rank: 0.5 is each class's own
            threshold, and equal scores of two classes mean the same distance from it.
        tags: (name, score) of the classes that are in the image, best first.
        classes: the classes.
        source: path of the picture as it was given; None if it was no file.
        size: (height, width) of the upright picture; None for features without pictures.
    """

    scores: Tensor
    tags: list[tuple[str, float]]
    classes: ClassList
    source: str | None = None
    size: tuple[int, int] | None = None
    _scorer: Scorer | None = field(default=None, repr=False)
    _features: ImageFeatures | None = field(default=None, repr=False)

    def top(self, count: int) -> list[tuple[str, float]]:
        """The `count` classes of the highest scores, best first, whether they are tags or not."""
        if type(count) is not int or count < 1:
            raise InputError(f"top takes a whole number of at least 1, not {count!r}.")
        return ranked(self.scores, self.classes, range(len(self.classes)))[:count]

    def heatmap(self, name: str, *, kind: HeatmapKind = "fused") -> Tensor:
        """Where a class is: (rows, columns) float32 on the patch grid, higher is likelier.

        kind: `fused` (as it is scored), `text` or `learned` alone, all in [0, 1], or their `difference`
        (learned - text, in [-1, 1]). Of a tiled image, the grid of the whole picture; `image_heatmap` shows
        all windows together.
        """
        values, features = self._patch_values(name, kind)
        rows, columns = features.grid
        return values[: rows * columns].view(rows, columns)

    def image_heatmap(self, name: str, *, kind: HeatmapKind = "fused") -> Tensor:
        """The same at the geometry of the original picture, (height, width) float32.

        Crop and pad are undone and tiles stitched; NaN where the encoder did not look.
        """
        values, features = self._patch_values(name, kind)
        if not features.placements:
            raise InputError(
                "These features came without pictures, so there is no picture to map onto. Use "
                "heatmap(), or predict from pictures."
            )
        return on_image(values, features.grid, features.placements)

    def _patch_values(self, name: str, kind: HeatmapKind) -> tuple[Tensor, ImageFeatures]:
        column = self.classes.index(name)
        if self._scorer is None or self._features is None:
            raise InputError("Heatmaps were not kept: predict with heatmaps=True.")
        patches = torch.nn.functional.normalize(self._features.patches[0].float(), dim=-1)
        return self._scorer.patch_map(patches, column, kind).cpu(), self._features


def make_prediction(
    scores: Tensor,
    classes: ClassList,
    *,
    threshold: float,
    top_k: int | None,
    source: str | None = None,
    size: tuple[int, int] | None = None,
    scorer: Scorer | None = None,
    features: ImageFeatures | None = None,
) -> Prediction:
    """Tags are the classes with a score of at least `threshold`, at most `top_k` of them."""
    above = (scores >= threshold).nonzero().flatten().tolist()
    tags = ranked(scores, classes, above)[:top_k]
    return Prediction(scores, tags, classes, source, size, scorer, features)


def batch_predictions(
    batch: ImageFeatures,
    scores: Tensor,
    classes: ClassList,
    *,
    sources: Sequence[str | None],
    threshold: float,
    top_k: int | None,
    scorer: Scorer | None,
) -> Iterator[Prediction]:
    """A `Prediction` of each image from its scores (B, C); with a `scorer`, heatmaps can be asked of it."""
    for row, each in enumerate(scores):
        yield make_prediction(
            each,
            classes,
            threshold=threshold,
            top_k=top_k,
            source=sources[row],
            size=_size(batch, row),
            scorer=scorer,
            features=None if scorer is None else _half(batch[row : row + 1]),
        )


def _half(features: ImageFeatures) -> ImageFeatures:
    """An image's features for keeping: patches in half precision, apart from the batch's memory."""
    return replace(features, cls=features.cls.clone(), patches=features.patches.cpu().half())


def _size(features: ImageFeatures, row: int) -> tuple[int, int] | None:
    """(height, width) of an image's picture, if it came from one."""
    placements = features.placements
    return placements[row * features.windows].original_size if placements else None


def ranked(
    scores: Tensor, classes: ClassList, columns: list[int] | range
) -> list[tuple[str, float]]:
    pairs = [(classes.names[c], float(scores[c])) for c in columns]
    return sorted(pairs, key=lambda pair: -pair[1])
