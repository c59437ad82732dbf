"""An encoder as a saved model describes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piaa.encoders.base import Encoder
from piaa.encoders.lite.sources import LITE_ENCODERS
from piaa.encoders.loading import load_encoder
from piaa.encoders.registry import ENCODERS
from piaa.encoders.tiled import TiledEncoder
from piaa.images.tiles import Tiles


def reload_encoder(spec: Mapping[str, Any], source: str, *, device: str | None = None) -> Encoder:
    """Load the encoder of a saved `EncoderSpec`: from where its weights were, or by its name.

    Whether it is the same encoder is for the caller to check, by its spec.
    """
    preprocessing, model, tiles = spec["preprocessing"], spec["model"], spec["tiles"]
    view: dict[str, Any] = {
        "image_size": tuple(preprocessing["image_size"]),
        "fit": preprocessing["fit"],
        "resize": preprocessing["resize"],
        "device": device,
        "precision": spec["precision"],
    }
    encoder: Encoder
    if spec["name"] in LITE_ENCODERS:
        encoder = load_encoder(spec["name"], **view)
    else:
        encoder = _reload_clip(spec, model, source, view)
    return encoder if tiles is None else TiledEncoder(encoder, Tiles.from_dict(tiles))


def _reload_clip(
    spec: Mapping[str, Any], model: Mapping[str, Any], source: str, view: Mapping[str, Any]
) -> Encoder:
    registered = spec["name"] in ENCODERS
    # A registered encoder's weights may be anywhere; its name finds them if they are no longer there.
    by_name = registered and not Path(source).exists()
    return load_encoder(
        spec["name"] if registered else None,
        weights=None if by_name else source,
        frontend=spec["frontend"],
        frontend_options=spec["frontend_options"],
        **view,
        activation=model["activation"],
        head_width=model["head_width"],
    )
