"""Any encoder, with its features kept: pictures that are known already cost their bytes and a hash."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NoReturn, TypeAlias

import numpy as np
from PIL import Image
from torch import Tensor

from piaa.encoders.base import Encoder, ImageFeatures
from piaa.encoders.wrapping import WrappedEncoder
from piaa.errors import ImageError, InputError
from piaa.features.shards import Row, StoredFeatures
from piaa.images import ImageSource, OnError, StoredImage, open_image, read_bytes
from piaa.images.ahead import threads_ahead
from piaa.images.opening import describe_source, source_name
from piaa.scale.cache import FeatureCache, picture_key, pixels_key
from piaa.scale.read_images import ReadImage

WINDOW_BATCHES, WINDOW_IMAGES = 32, 512
"""Pictures looked up before the first of them is handed out: so many batches, at most so many pictures."""
_BATCH: Final = 8
_READERS: Final = 4

_Known: TypeAlias = tuple[bytes, ImageSource]
"""A picture's key, and the picture from memory: what was hashed is what will be encoded."""


@dataclass
class _Entry:
    """A picture on its way: it ends with features or with an error."""

    index: int
    source: ImageSource
    key: bytes = b""
    stored: Row | None = None
    error: ImageError | None = None
    twin: _Entry | None = None


class CachedEncoder(WrappedEncoder):
    """An encoder whose features come from a `FeatureCache` where they are in it, and go there if not.

    What it gives is always what the cache holds, rounded to its storage, the first time too: a result does
    not depend on what was there before. Wrap it around tiles: `CachedEncoder(TiledEncoder(encoder), ...)`.

    Attributes:
        n_asked: pictures whose features it gave; n_encoded: those among them that were new.
    """

    def __init__(self, encoder: Encoder, cache: FeatureCache | None = None) -> None:
        super().__init__(encoder)
        self.cache = FeatureCache(encoder.spec) if cache is None else cache
        self.n_asked = self.n_encoded = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.encoder!r}, {len(self.cache):,} images kept>"

    @property
    def default_batch_size(self) -> int:
        return int(getattr(self.encoder, "default_batch_size", _BATCH))

    def encode_pixels(self, pixels: Tensor) -> NoReturn:
        """Refused: nothing tells which pictures pixels are of."""
        raise InputError(
            f"Pixels {tuple(pixels.shape)} cannot be looked up in a cache of pictures. Use encode_images, or "
            "encode_pixels of the encoder inside (.encoder). For tiles, keep those of the tiled encoder: "
            "CachedEncoder(TiledEncoder(encoder, tiles))."
        )

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        """As any encoder's. New features are in the cache when the stream ends, however it does."""
        size = self.default_batch_size if batch_size is None else batch_size
        if type(size) is not int or size < 1:
            raise InputError(f"batch_size must be a whole number of at least 1, not {size!r}.")
        if isinstance(images, str | Image.Image | np.ndarray) or not isinstance(images, Iterable):
            raise InputError(
                f"images must be several pictures, not {describe_source(images)}. Put it in a list."
            )
        return self._stream(images, size, on_error)

    def _stream(
        self, images: Iterable[ImageSource], size: int, on_error: OnError | None
    ) -> Iterator[ImageFeatures]:
        self.cache.refresh()
        window = max(size, min(WINDOW_BATCHES * size, WINDOW_IMAGES // size * size))
        entries = (_Entry(index, source) for index, source in enumerate(images))
        ready: list[Row] = []
        try:
            while some := list(islice(entries, window)):
                for stored in self._window(some, size, on_error):
                    ready.append(stored)
                    if len(ready) == size:
                        yield self._features(ready)
                        ready = []
            if ready:
                yield self._features(ready)
        finally:
            self.cache.flush()

    def _features(self, ready: Sequence[Row]) -> ImageFeatures:
        features = StoredFeatures.join(ready).features()
        patches = features.patches.to(self.device)
        return replace(features, cls=features.cls.to(self.device), patches=patches)

    def _window(
        self, entries: Sequence[_Entry], size: int, on_error: OnError | None
    ) -> Iterator[Row]:
        """Features of some pictures in order; errors are told where they come in that order.

        New pictures go through the encoder as one stream, so that it decodes ahead. Where a run was
        broken off, the batches it wrote are found and the others are the same as they would have been.
        """
        waiting = deque(entries)
        sent: list[_Entry] = []

        def unknown() -> Iterator[ImageSource]:
            sought: dict[bytes, _Entry] = {}
            for entry, known in _read_ahead(entries, size):
                if isinstance(known, ImageError):
                    entry.error = known
                    continue
                entry.key, picture = known
                entry.twin = sought.get(entry.key)
                if entry.twin is None and (stored := self.cache.get(entry.key)) is not None:
                    entry.stored = stored
                elif entry.twin is None:
                    sought[entry.key] = entry
                    sent.append(entry)
                    yield picture

        def fail(index: int, source: ImageSource, error: ImageError) -> None:  # noqa: ARG001
            sent[index].error = error

        done = 0
        for batch in self.encoder.stream_images(unknown(), batch_size=size, on_error=fail):
            encoded: list[_Entry] = []
            while len(encoded) < len(batch):
                encoded += [] if sent[done].error else [sent[done]]
                done += 1
            stored = self.cache.add([entry.key for entry in encoded], batch)
            for row, entry in enumerate(encoded):
                entry.stored = (stored, row)
            self.n_encoded += len(encoded)
            yield from self._settled(waiting, on_error)
        yield from self._settled(waiting, on_error)

    def _settled(self, waiting: deque[_Entry], on_error: OnError | None) -> Iterator[Row]:
        """Take from the front what has its features, or its error."""
        while waiting:
            entry = waiting[0]
            stored, error = entry.stored, entry.error
            if entry.twin is not None:
                stored, error = entry.twin.stored, entry.twin.error
            if stored is None and error is None:
                return
            waiting.popleft()
            if stored is not None:
                self.n_asked += 1
                yield stored
            elif error is not None and on_error is None:
                raise error
            elif error is not None and on_error is not None:
                on_error(entry.index, entry.source, error)


def _read_ahead(
    entries: Sequence[_Entry], ahead: int
) -> Iterator[tuple[_Entry, _Known | ImageError]]:
    """Each entry with its key and bytes, or why it has none; read in threads, some ahead."""
    left = iter(entries)
    tasks: deque[tuple[_Entry, Future[_Known]]] = deque()

    def submit(count: int) -> None:
        tasks.extend((entry, pool.submit(_look_at, entry.source)) for entry in islice(left, count))

    with threads_ahead(_READERS, "piaa-keys") as pool:
        submit(ahead + _READERS)
        while tasks:
            entry, task = tasks.popleft()
            submit(1)
            try:
                known: _Known | ImageError = task.result()
            except ImageError as error:
                known = error
            yield entry, known


def _look_at(source: ImageSource) -> _Known:
    if isinstance(source, Image.Image | np.ndarray):
        image = open_image(source)
        return pixels_key(image), image
    if isinstance(source, ReadImage) and source.key:  # of the file, which is not here
        return source.key, source
    data = read_bytes(source)
    return picture_key(data), StoredImage(source_name(source) or "", lambda: data)
