"""Predictions as cards of the page: which names to show, and pictures of where they are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from piaa.demo.page import MOST_TAGS, Card, ShownTag
from piaa.heatmaps import overlay
from piaa.images import open_image
from piaa.prediction import Prediction

LONGEST_SIDE = 720
LEAST_GUESS = 0.1
MOST_GUESSES = 3


def guesses(prediction: Prediction) -> list[tuple[str, float]]:
    """Of an image without a tag, the best names that are worth a look; one at least."""
    if prediction.tags:
        return []
    best = prediction.top(MOST_GUESSES)
    return [pair for pair in best if pair[1] >= LEAST_GUESS] or best[:1]


def make_card(
    path: Path,
    prediction: Prediction,
    *,
    before: Sequence[tuple[str, float]] | None = None,
    credit: str = "",
) -> Card:
    """The card of a photograph, with an overlay for each name that is shown."""
    picture = open_image(path)
    tags = [
        ShownTag(
            name=name,
            score=score,
            sure=(name, score) in prediction.tags,
            overlay=_jpeg(overlay(picture, prediction.image_heatmap(name))),
        )
        for name, score in [*prediction.tags[:MOST_TAGS], *guesses(prediction)]
    ]
    more = [name for name, _ in prediction.tags[MOST_TAGS:]]
    return Card(path.name, _jpeg(picture), tags, more, before, credit)


def _jpeg(picture: Image.Image) -> bytes:
    small = picture.copy()
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=82, progressive=True)
    return buffer.getvalue()
