"""What a report keeps of each photograph: scores, tags, and small maps of the classes that matter."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from piaa.encoders.base import ImageFeatures
from piaa.heatmaps import cell_boxes
from piaa.prediction import Prediction
from piaa.recognizer import Recognizer
from piaa.scoring import HeatmapKind

# Maps are kept of an image's tags, of this many highest classes, and of classes whose bank has a
# patch of it: all classes' would be most of the report, and nobody looks at them.
MAPPED_CLASSES: Final = 5
SCORE_LEVELS: Final = 65535


@dataclass(frozen=True)
class BankPatch:
    """A patch of a photograph that is in a class's bank.

    `box` is (top, left, bottom, right) of its cell, in shares of the picture; `likelihood` is the
    text probability of its class.
    """

    column: int
    cell: int
    box: tuple[float, float, float, float]
    likelihood: float


@dataclass(frozen=True)
class Entry:
    """One photograph.

    Attributes:
        scores: (C,) uint16, scores in steps of 1 / 65535, rounded down.
        tags: columns of its tags, best first.
        maps: what the page needs to draw its heatmaps, as JSON values.
        patches: its patches in the banks.
    """

    scores: npt.NDArray[np.uint16]
    tags: list[int]
    maps: dict[str, Any]
    patches: list[BankPatch]


def map_kinds(recognizer: Recognizer) -> tuple[HeatmapKind, ...]:
    """The kinds of map that differ: before a fit there is the text alone."""
    return ("text",) if recognizer.scorer.classifier is None else ("fused", "text", "learned")


def entries_of(
    recognizer: Recognizer, features: ImageFeatures, *, threshold: float
) -> Iterator[Entry]:
    """What is kept of the photographs of a batch, in order. Features must come from pictures."""
    predictions = recognizer.predict(features, threshold=threshold, heatmaps=False)
    marks = _bank_marks(recognizer, features)
    for row, prediction in enumerate(predictions):
        yield _entry(recognizer, features[row : row + 1], prediction, marks[row])


def _bank_marks(recognizer: Recognizer, features: ImageFeatures) -> list[dict[int, list[int]]]:
    """For each image, the cells that each class's bank holds; classes without any are left out."""
    found: list[dict[int, list[int]]] = [{} for _ in range(len(features))]
    if recognizer.is_fitted:
        for column, name in enumerate(recognizer.classes.names):
            for row, cell in recognizer.retained(features, name).nonzero().tolist():
                found[row].setdefault(column, []).append(cell)
    return found


def _entry(
    recognizer: Recognizer,
    features: ImageFeatures,
    prediction: Prediction,
    marks: dict[int, list[int]],
) -> Entry:
    tags = [recognizer.classes.index(name) for name, _ in prediction.tags]
    highest = [recognizer.classes.index(name) for name, _ in prediction.top(MAPPED_CLASSES)]
    columns = list(dict.fromkeys([*tags, *highest, *marks]))
    values = _map_values(recognizer, features.patches[0], columns)
    tops = values.amax(dim=(1, 2)).clamp_min(1e-6)
    levels = (values / tops[:, None, None] * 255).round().to(torch.uint8)
    maps = {
        "classes": columns,
        "tops": [round(top, 5) for top in tops.tolist()],
        "levels": as_base64(levels.numpy()),
        "boxes": _window_boxes(features),
        "bank": {str(column): cells for column, cells in marks.items()},
    }
    scores = (prediction.scores.double() * SCORE_LEVELS).floor().numpy().astype(np.uint16)
    text = values[:, map_kinds(recognizer).index("text")]
    likelihood = {column: text[columns.index(column)] for column in marks}
    return Entry(scores, tags, maps, _bank_patches(features, marks, likelihood))


def _bank_patches(
    features: ImageFeatures, marks: Mapping[int, list[int]], likelihood: Mapping[int, Tensor]
) -> list[BankPatch]:
    if not marks:
        return []
    height, width = features.placements[0].original_size
    boxes = cell_boxes(features.grid, features.placements) / torch.tensor([height, width] * 2)
    patches = []
    for column, cells in marks.items():
        for cell in cells:
            top, left, bottom, right = boxes[cell].tolist()
            if top < bottom and left < right:  # not wholly in the padding
                place = (top, left, bottom, right)
                patches.append(BankPatch(column, cell, place, float(likelihood[column][cell])))
    return patches


def _map_values(recognizer: Recognizer, patches: Tensor, columns: Sequence[int]) -> Tensor:
    """(columns, kinds, patches) float32 in [0, 1]."""
    scorer, kinds = recognizer.scorer, map_kinds(recognizer)
    maps = [[scorer.patch_map(patches, column, kind) for kind in kinds] for column in columns]
    return torch.stack([torch.stack(of_kinds) for of_kinds in maps]).cpu()


def _window_boxes(features: ImageFeatures) -> list[list[float]]:
    """[top, left, bottom, right] of each window, in shares of the picture; beyond 0 and 1 in the pad."""
    return [
        [
            round(edge / length, 5)
            for edge, length in zip(placement.box, placement.original_size * 2, strict=True)
        ]
        for placement in features.placements
    ]


def as_base64(array: npt.NDArray[Any]) -> str:
    """The array's bytes, little-endian, row-major."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")
