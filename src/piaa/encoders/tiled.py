"""Any encoder on overlapping windows of each picture, for things too small for the whole one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, NoReturn

import torch
from PIL import Image
from torch import Tensor

from piaa.encoders.base import Encoder, EncoderSpec, ImageFeatures
from piaa.encoders.wrapping import WrappedEncoder
from piaa.errors import ImageError, InputError
from piaa.images import ImageSource, OnError, Placement, Tiles, open_image, preprocess
from piaa.images.ahead import threads_ahead
from piaa.images.opening import describe_source

# Windows in a batch when its size is left open; at least one picture.
CPU_WINDOWS, GPU_WINDOWS = 8, 64
DECODING_THREADS = 4


class _Windows(NamedTuple):
    """One picture: pixels (W, 3, rows, columns) float32 and a placement a window."""

    pixels: Tensor
    placements: tuple[Placement, ...]


class TiledEncoder(WrappedEncoder):
    """An encoder whose bag of patches holds the whole picture and windows of it, magnified.

    Costs `passes_per_image` = tiles.rows * tiles.columns + 1 passes of the encoder a picture, and
    as many times its patches: 5 for the default tiles. A larger `image_size` is the other way to
    show small things; windows keep the size that the network was trained on.

    Window 0 is the whole picture with the encoder's own preprocessing, and gives the global
    vector. The others are cut from the picture at full resolution and squashed to the canvas, so
    that none loses a margin, whatever the encoder's own fit is. Placements are in the coordinates
    of the picture, for all windows.
    """

    def __init__(self, encoder: Encoder, tiles: Tiles | None = None) -> None:
        if encoder.spec.tiles is not None:
            raise InputError(
                f"The encoder has tiles already: {encoder.spec.tiles}. Wrap the one inside it."
            )
        super().__init__(encoder)
        self.tiles = Tiles() if tiles is None else tiles
        self._whole = encoder.spec.preprocessing
        self._window = replace(self._whole, fit="squash")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.tiles} of {self.encoder!r}>"

    @property
    def spec(self) -> EncoderSpec:
        """That of the encoder inside, with the tiles."""
        return replace(self.encoder.spec, tiles=self.tiles.to_dict())

    @property
    def dim(self) -> int:
        """Length D of every vector."""
        return self.encoder.spec.dim

    @property
    def passes_per_image(self) -> int:
        """Windows of a picture, the whole one included: what it costs, in pictures."""
        return len(self.tiles)

    @property
    def default_batch_size(self) -> int:
        """Pictures whose windows together make up an ordinary batch; at least 1."""
        windows = CPU_WINDOWS if self.device.type == "cpu" else GPU_WINDOWS
        return max(1, windows // self.passes_per_image)

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        """The same, `batch_size` pictures at a time, for collections that do not fit in memory.

        Pictures are decoded ahead in threads while a batch is encoded. With `on_error`, those that
        cannot be read are left out, see `piaa.images.read_batches`.
        """
        size = self.default_batch_size if batch_size is None else batch_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"batch_size must be a whole number of at least 1, not {size!r}.")
        if isinstance(images, str | os.PathLike | Image.Image) or not isinstance(images, Iterable):
            raise InputError(
                f"images must be several pictures, not {describe_source(images)}. Put it in a list."
            )
        ready = self._read_ahead(images, size, on_error)
        try:
            while batch := list(islice(ready, size)):
                yield self._encode(batch)
        finally:
            ready.close()

    def encode_pixels(self, pixels: Tensor) -> NoReturn:
        """Refused: windows are cut from the picture before it is scaled down to pixels."""
        raise InputError(
            f"Tiles need pictures, and pixels {tuple(pixels.shape)} are scaled to the canvas "
            "already. Use encode_images, or encode_pixels of the encoder inside (.encoder)."
        )

    def _encode(self, batch: Sequence[_Windows]) -> ImageFeatures:
        n_images, n_windows = len(batch), self.passes_per_image
        features = self.encoder.encode_pixels(torch.cat([windows.pixels for windows in batch]))
        return ImageFeatures(
            cls=features.cls[::n_windows].clone(),
            patches=features.patches.reshape(n_images, -1, self.dim),
            grid=features.grid,
            placements=tuple(p for windows in batch for p in windows.placements),
            windows=n_windows,
        )

    def _read_ahead(
        self, images: Iterable[ImageSource], ahead: int, on_error: OnError | None
    ) -> Generator[_Windows]:
        """The windows of each picture in order, `ahead` pictures before they are asked for."""
        sources = enumerate(images)
        tasks: deque[tuple[int, ImageSource, Future[_Windows]]] = deque()

        def submit(count: int) -> None:
            tasks.extend((i, s, pool.submit(self._read, s)) for i, s in islice(sources, count))

        with threads_ahead(DECODING_THREADS, "piaa-windows") as pool:
            submit(ahead)
            while tasks:
                index, source, task = tasks.popleft()
                try:
                    windows = task.result()
                except ImageError as error:
                    if on_error is None:
                        raise
                    on_error(index, source, error)
                    submit(1)
                else:
                    submit(1)
                    yield windows

    def _read(self, source: ImageSource) -> _Windows:
        image = open_image(source)
        size = (image.height, image.width)
        pixels, placement = preprocess(image, self._whole)
        shown, placements = [pixels], [placement]
        for box in self.tiles.boxes(*size)[1:]:
            top, left, bottom, right = box
            pixels, placement = preprocess(image.crop((left, top, right, bottom)), self._window)
            shown.append(pixels)
            placements.append(placement.inside(box, size))
        return _Windows(torch.stack(shown), tuple(placements))
