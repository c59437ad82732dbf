"""The paper's pictures for given photographs: what CLS looks at, and what learning changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import torch
from PIL import Image
from torch import Tensor

from piaa.encoders.base import Encoder
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.frontends.base import Frontend, LastBlock, Trunk
from piaa.errors import InputError
from piaa.evaluation.plots import new_figure, save_figure
from piaa.heatmaps import cell_boxes, fade, on_image, overlay
from piaa.images import open_image, preprocess
from piaa.prediction import Prediction
from piaa.recognizer import Recognizer
from piaa.scoring import HeatmapKind

_LONGEST = 480  # pixels of a picture in a figure


@dataclass(frozen=True, kw_only=True)
class _ClsAttention(Frontend):
    """Not a way to read patches: remembers what the class token attends to in the last block."""

    name: ClassVar[str] = "cls-attention"
    summary: ClassVar[str] = "records the attention of the class token"
    seen: list[Tensor] = field(default_factory=list)

    def patch_tokens(self, trunk: Trunk, last: LastBlock) -> Tensor:  # noqa: ARG002
        width = last.q.shape[-1]
        logits = last.turned_q[:, :, :1] * width**-0.5 @ last.turned_k.transpose(2, 3)
        self.seen.append(logits.softmax(-1)[:, :, 0, 1:].mean(1).float())
        return last.x[:, 1:]


@torch.no_grad()
def global_view(encoder: Encoder, picture: Image.Image) -> tuple[Tensor, str]:
    """What makes up the global vector of a picture, (H, W) at its own geometry, and its name.

    The attention of the class token in the last block, averaged over heads, of a CLIP; else the cosine
    of each patch with the global vector.
    """
    if not isinstance(encoder, ClipEncoder):
        features = encoder.encode_images([picture])
        n_cells = features.grid[0] * features.grid[1]
        values = features.patches[0, :n_cells] @ features.cls[0]
        placements = features.placements[:1]
        return on_image(values, features.grid, placements), "cosine with the global vector"
    pixels, placement = preprocess(picture, encoder.spec.preprocessing)
    recorder = _ClsAttention()
    tower = encoder.vision
    _, _, grid = tower(pixels[None].to(encoder.device, tower.cls_token.dtype), recorder)
    return on_image(recorder.seen[0][0].cpu(), grid, [placement]), "CLS attention"


def draw_attention(
    recognizer: Recognizer, photos: Sequence[Path], names: Sequence[str] | None, path: Path
) -> None:
    """Each photograph, what its global vector sees, and the learnt heatmap of each class."""
    rows = []
    for picture, prediction in _predicted(recognizer, photos):
        view, title = global_view(recognizer.encoder, picture)
        shown = [(picture, "photograph"), (overlay(picture, view), title)]
        for name in _classes(prediction, names):
            heat = prediction.image_heatmap(name, kind=_learned(recognizer))
            shown.append((overlay(picture, heat), name))
        rows.append(shown)
    _draw_rows(rows, path)


def draw_before_after(
    recognizer: Recognizer, photos: Sequence[Path], names: Sequence[str] | None, path: Path
) -> None:
    """Heatmaps of the text (before PVCL) and of the learnt classifier (after it)."""
    if not recognizer.is_fitted:
        raise InputError(
            "Heatmaps after PVCL need a fitted model: give --model, or data to fit on."
        )
    rows = []
    for picture, prediction in _predicted(recognizer, photos):
        shown = [(picture, "photograph")]
        for name in _classes(prediction, names)[:2]:
            shown += [
                (overlay(picture, prediction.image_heatmap(name, kind="text")), f"{name}, before"),
                (
                    overlay(picture, prediction.image_heatmap(name, kind="learned")),
                    f"{name}, after",
                ),
            ]
        rows.append(shown)
    _draw_rows(rows, path)


def draw_retained(
    recognizer: Recognizer, photos: Sequence[Path], names: Sequence[str] | None, path: Path
) -> None:
    """The patches that the banks kept of photographs they were learnt from; the rest is faded."""
    rows = []
    for picture, prediction in _predicted(recognizer, photos):
        features = recognizer.encoder.encode_images([picture])
        boxes = cell_boxes(features.grid, features.placements)
        shown = [(picture, "photograph")]
        for name in _classes(prediction, names):
            kept = recognizer.retained(features, name)[0]
            shown.append((fade(picture, boxes[kept]), f"{name}: {int(kept.sum())} patches"))
        rows.append(shown)
    _draw_rows(rows, path)


def _predicted(
    recognizer: Recognizer, photos: Sequence[Path]
) -> list[tuple[Image.Image, Prediction]]:
    # As they are: the banks know their images by what the encoder made of these very pixels.
    pictures = [open_image(photo) for photo in photos]
    return list(zip(pictures, recognizer.predict(pictures), strict=True))


def _small(picture: Image.Image) -> Image.Image:
    """At most `_LONGEST` pixels a side."""
    scale = _LONGEST / max(picture.size)
    if scale >= 1:
        return picture
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    return picture.resize(size, Image.Resampling.BICUBIC)


def _classes(prediction: Prediction, names: Sequence[str] | None) -> list[str]:
    """Those asked for, else up to three tags, else the best class."""
    if names:
        return list(names)
    return [name for name, _ in prediction.tags[:3]] or [prediction.top(1)[0][0]]


def _learned(recognizer: Recognizer) -> HeatmapKind:
    return "learned" if recognizer.is_fitted else "text"


def _draw_rows(rows: Sequence[Sequence[tuple[Image.Image, str]]], path: Path) -> None:
    columns = max(map(len, rows))
    figure, _ = new_figure(2.4 * columns, 2.2 * len(rows))
    figure.clear()
    for line, shown in enumerate(rows):
        for place, (picture, title) in enumerate(shown):
            axis = figure.add_subplot(len(rows), columns, line * columns + place + 1)
            axis.imshow(_small(picture))
            axis.set_title(title, fontsize=8)
            axis.set_axis_off()
    save_figure(figure, path)
