"""File -> pixels: open pictures safely, fit them to a network's canvas, read them ahead."""

from __future__ import annotations

from piaa.images.listing import list_images
from piaa.images.opening import MAX_PIXELS, ImageSource, StoredImage, open_image, read_bytes
from piaa.images.placement import Placement
from piaa.images.preprocessing import (
    CLIP_MEAN,
    CLIP_STD,
    Preprocessing,
    as_image_size,
    fit_pixels,
    normalize_pixels,
    preprocess,
)
from piaa.images.reader import OnError, PixelBatch, read_batches
from piaa.images.tiles import Tiles

__all__ = [
    "CLIP_MEAN",
    "CLIP_STD",
    "MAX_PIXELS",
    "ImageSource",
    "OnError",
    "PixelBatch",
    "Placement",
    "Preprocessing",
    "StoredImage",
    "Tiles",
    "as_image_size",
    "fit_pixels",
    "list_images",
    "normalize_pixels",
    "open_image",
    "preprocess",
    "read_batches",
    "read_bytes",
]
