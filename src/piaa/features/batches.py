"""Whatever people give as images, as a stream of features that can be relied on."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from piaa.checks import unit_rows
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import ImageError, InputError
from piaa.images import ImageSource, OnError, StoredImage, list_images
from piaa.images.opening import source_name

Images: TypeAlias = ImageSource | ImageFeatures | Iterable[ImageSource] | Iterable[ImageFeatures]
"""A folder, a picture, features, or several pictures or features; a picture may be its path."""


Sources: TypeAlias = tuple[str | None, ...]
"""The path or name of each image of a batch, as it was given; None if it has none."""


def feature_batches(
    encoder: Encoder,
    images: Images,
    *,
    batch_size: int | None = None,
    on_error: OnError | None = None,
) -> Iterator[ImageFeatures]:
    """Features of all images in order, at most `batch_size` at a time.

    Features are on the encoder's device, float32 of its dimension, finite and of unit length,
    whoever made them; others raise an `InputError` when their turn comes.

    Args:
        on_error: without it the first picture that cannot be read raises an `ImageError`. With it
            such a picture is left out and on_error(index, source, error) is called.
    """
    batches = sourced_batches(encoder, images, batch_size=batch_size, on_error=on_error)
    return (features for features, _ in batches)


def sourced_batches(
    encoder: Encoder,
    images: Images,
    *,
    batch_size: int | None = None,
    on_error: OnError | None = None,
) -> Iterator[tuple[ImageFeatures, Sources]]:
    """`feature_batches`, and with each batch the paths of its images."""
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise InputError(f"batch_size must be a whole number of at least 1, not {batch_size!r}.")
    batches = _batches(encoder, _several(images), batch_size, on_error)
    return ((_checked(batch, encoder), sources) for batch, sources in batches)


def _several(images: Any) -> Iterable[Any]:
    if isinstance(images, str | os.PathLike) and Path(images).is_dir():
        return list_images(images)
    alone = isinstance(images, str | os.PathLike | StoredImage | Image.Image | ImageFeatures)
    if alone or (isinstance(images, np.ndarray) and images.ndim < 4):
        return [images]
    if not isinstance(images, Iterable):
        raise InputError(
            f"images cannot be a {type(images).__name__}. Give a folder, paths, pictures or "
            "ImageFeatures."
        )
    return images


def _batches(
    encoder: Encoder, images: Iterable[Any], batch_size: int | None, on_error: OnError | None
) -> Iterator[tuple[ImageFeatures, Sources]]:
    stream = iter(images)
    for first in stream:
        every = chain([first], stream)
        if not isinstance(first, ImageFeatures):
            yield from _encoded(encoder, every, batch_size, on_error)
            return
        for part in every:
            if not isinstance(part, ImageFeatures):
                raise InputError(
                    "Images are given as ImageFeatures or as pictures, not both; after ImageFeatures "
                    f"came a {type(part).__name__}."
                )
            size = batch_size or max(1, len(part))
            for start in range(0, len(part), size):
                some = part[start : start + size]
                yield some, (None,) * len(some)


def _encoded(
    encoder: Encoder,
    images: Iterable[ImageSource],
    batch_size: int | None,
    on_error: OnError | None,
) -> Iterator[tuple[ImageFeatures, Sources]]:
    """What the encoder streams, told apart again: it reads ahead, in order, and leaves some out."""
    read: deque[tuple[int, ImageSource]] = deque()
    left_out: set[int] = set()

    def remembered() -> Iterator[ImageSource]:
        for index, source in enumerate(images):
            read.append((index, source))
            yield source

    def leave_out(index: int, source: ImageSource, error: ImageError) -> None:
        left_out.add(index)
        if on_error is not None:
            on_error(index, source, error)

    def next_path() -> str | None:
        index, source = read.popleft()
        while index in left_out:
            left_out.remove(index)
            index, source = read.popleft()
        return source_name(source)

    # An encoder of one's own that cannot leave pictures out still works where none is to be.
    skipping: dict[str, Any] = {} if on_error is None else {"on_error": leave_out}
    for features in encoder.stream_images(remembered(), batch_size=batch_size, **skipping):
        yield features, tuple(next_path() for _ in range(len(features)))


def _checked(features: ImageFeatures, encoder: Encoder) -> ImageFeatures:
    dim = encoder.spec.dim
    cls = unit_rows("cls of the features", features.cls.to(encoder.device), ndim=2, width=dim)
    patches = features.patches.to(encoder.device)
    patches = unit_rows("patches of the features", patches, ndim=3, width=dim)
    return replace(features, cls=cls, patches=patches)
