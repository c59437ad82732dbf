"""Whatever people give as images, as a stream of features that can be relied on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from piaa.checks import unit_rows
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import InputError
from piaa.images import ImageSource, list_images

Images: TypeAlias = ImageSource | ImageFeatures | Iterable[ImageSource] | Iterable[ImageFeatures]
"""A folder, a picture, features, or several pictures or features; a picture may be its path."""


def feature_batches(
    encoder: Encoder, images: Images, *, batch_size: int | None = None
) -> Iterator[ImageFeatures]:
    """Features of all images in order, at most `batch_size` at a time.

    Features are on the encoder's device, float32 of its dimension, finite and of unit length,
    whoever made them; others raise an `InputError` when their turn comes.
    """
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise InputError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
    return (_checked(batch, encoder) for batch in _batches(encoder, _several(images), batch_size))


def _several(images: Any) -> Iterable[Any]:
    if isinstance(images, str | os.PathLike) and Path(images).is_dir():
        return list_images(images)
    alone = isinstance(images, str | os.PathLike | Image.Image | ImageFeatures)
    if alone or (isinstance(images, np.ndarray) and images.ndim < 4):
        return [images]
    if not isinstance(images, Iterable):
        raise InputError(
            f"images cannot be a {type(images).__name__}. Give a folder, paths, pictures or "
            "ImageFeatures."
        )
    return images


def _batches(
    encoder: Encoder, images: Iterable[Any], batch_size: int | None
) -> Iterator[ImageFeatures]:
    stream = iter(images)
    for first in stream:
        every = chain([first], stream)
        if not isinstance(first, ImageFeatures):
            yield from encoder.stream_images(every, batch_size=batch_size)
            return
        for part in every:
            if not isinstance(part, ImageFeatures):
                raise InputError(
                    "Images are given as ImageFeatures or as pictures, not both; after ImageFeatures "
                    f"came a {type(part).__name__}."
                )
            size = batch_size or max(1, len(part))
            yield from (part[start : start + size] for start in range(0, len(part), size))


def _checked(features: ImageFeatures, encoder: Encoder) -> ImageFeatures:
    dim = encoder.spec.dim
    cls = unit_rows("cls of the features", features.cls.to(encoder.device), ndim=2, width=dim)
    patches = features.patches.to(encoder.device)
    patches = unit_rows("patches of the features", patches, ndim=3, width=dim)
    return replace(features, cls=cls, patches=patches)
