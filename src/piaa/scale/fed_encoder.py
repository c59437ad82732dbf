"""An encoder whose pictures another process has read, decoded and scaled down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from piaa.encoders.base import Encoder, ImageFeatures
from piaa.encoders.wrapping import WrappedEncoder
from piaa.errors import ImageError
from piaa.images import ImageSource, OnError
from piaa.images.placement import place
from piaa.scale.cached_encoder import CachedEncoder
from piaa.scale.read_images import Reader, ReadImage


def reader_of(encoder: Encoder) -> Reader:
    """The reader whose pictures an encoder takes, once it is `fed`."""
    spec = encoder.spec
    cache = None
    if isinstance(encoder, CachedEncoder):
        cache = (spec, encoder.cache.folder, encoder.cache.storage)
    return Reader(None if spec.tiles is not None else spec.preprocessing, cache)


def fed(encoder: Encoder) -> Encoder:
    """An encoder that takes `ReadImage`s of its own `Reader`."""
    if isinstance(encoder, CachedEncoder):
        return CachedEncoder(fed(encoder.encoder), encoder.cache)
    return encoder if encoder.spec.tiles is not None else FedEncoder(encoder)


class FedEncoder(WrappedEncoder):
    """An encoder of pictures that come scaled down; placements are those in the pictures as they were."""

    @property
    def default_batch_size(self) -> int:
        return int(self.encoder.default_batch_size)  # type: ignore[attr-defined]  # where it has one

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        """As any encoder's."""
        read: dict[int, ImageSource] = {}
        canvas = self.spec.preprocessing

        def remembered() -> Iterator[ImageSource]:
            for index, image in enumerate(images):
                read[index] = image
                yield image

        def leave_out(index: int, source: ImageSource, error: ImageError) -> None:
            del read[index]
            if on_error is None:
                raise error
            on_error(index, source, error)

        for features in self.encoder.stream_images(
            remembered(), batch_size=batch_size, on_error=leave_out
        ):
            shown = [read.pop(index) for index in list(islice(read, len(features)))]
            sizes = [
                image.original_size if isinstance(image, ReadImage) else None for image in shown
            ]
            yield replace(
                features,
                placements=tuple(
                    placement if size is None else place(size, canvas.image_size, canvas.fit)
                    for placement, size in zip(features.placements, sizes, strict=True)
                ),
            )
