"""Pictures -> batches of pixels, decoded in threads ahead of whoever consumes them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np
import torch
from PIL import Image

from piaa.errors import ImageError, InputError
from piaa.images.ahead import threads_ahead
from piaa.images.opening import MAX_PIXELS, ImageSource, describe_source, open_image
from piaa.images.placement import Placement
from piaa.images.preprocessing import Preprocessing, preprocess

OnError: TypeAlias = Callable[[int, ImageSource, ImageError], None]

_Pixels: TypeAlias = tuple[torch.Tensor, Placement]
_Read: TypeAlias = tuple[int, torch.Tensor, Placement]
_Task: TypeAlias = tuple[int, ImageSource, Future[_Pixels]]

_MOST_WORKERS = 8


@dataclass(frozen=True)
class PixelBatch:
    """Pictures ready for a network.

    Attributes:
        pixels: (B, 3, rows, columns) float32, normalized.
        placements: of each picture on the canvas.
        indices: of each picture among the sources, rising.
    """

    pixels: torch.Tensor
    placements: tuple[Placement, ...]
    indices: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.indices)


def read_batches(
    sources: Iterable[ImageSource],
    preprocessing: Preprocessing,
    *,
    batch_size: int,
    workers: int | None = None,
    on_error: OnError | None = None,
    max_pixels: int = MAX_PIXELS,
    pin: bool = False,
) -> Iterator[PixelBatch]:
    """Read pictures in order, in batches of `batch_size` (the last may be smaller).

    While the caller works on one batch, threads put the next together and decode the one after.
    `sources` is read in the caller's thread, at most two batches and `workers` pictures ahead, so it
    may be endless. Closing the iterator, or dropping it, ends the threads.

    Args:
        workers: decoding threads; by default one for each core of this process, at most 8.
        on_error: without it the first unreadable picture raises ImageError. With it such a picture
            is left out, batches stay full, and on_error(index, source, error) is called from the
            caller's thread in the order of the sources.
        max_pixels: see `open_image`.
        pin: put pixels into page-locked memory, from which a GPU copies while the CPU goes on.
    """
    if isinstance(sources, str | os.PathLike | Image.Image) or (
        isinstance(sources, np.ndarray) and sources.ndim < 4
    ):
        raise InputError(
            f"sources must be several pictures, not {describe_source(sources)} alone. "
            "Put it in a list."
        )
    if not isinstance(sources, Iterable):
        raise InputError(f"sources must be pictures to iterate over, not {sources!r}.")
    _check_count("batch_size", batch_size)
    _check_count("max_pixels", max_pixels)
    if workers is None:
        workers = min(_MOST_WORKERS, _available_cores())
    _check_count("workers", workers)

    def read(source: ImageSource) -> _Pixels:
        return preprocess(open_image(source, max_pixels=max_pixels), preprocessing)

    def collect(ready: list[_Read]) -> PixelBatch:
        indices, pixels, placements = zip(*ready, strict=True)
        stacked = torch.stack(pixels)
        return PixelBatch(stacked.pin_memory() if pin else stacked, placements, indices)

    return _read_ahead(sources, read, collect, batch_size, workers, on_error)


def _read_ahead(
    sources: Iterable[ImageSource],
    read: Callable[[ImageSource], _Pixels],
    collect: Callable[[list[_Read]], PixelBatch],
    batch_size: int,
    workers: int,
    on_error: OnError | None,
) -> Iterator[PixelBatch]:
    """Batches, each put together by a thread while the caller works on the one before."""
    ahead: Future[PixelBatch] | None = None
    failure: Exception | None = None
    with threads_ahead(workers, "piaa-images") as pool:
        try:
            for pictures in _read_in_order(sources, read, pool, batch_size, workers, on_error):
                following = pool.submit(collect, pictures)
                if ahead is not None:
                    yield ahead.result()
                ahead = following
        except Exception as error:  # of a later picture: what came before it is handed out first
            failure = error
        if ahead is not None:
            yield ahead.result()
        if failure is not None:
            raise failure


def _read_in_order(
    sources: Iterable[ImageSource],
    read: Callable[[ImageSource], _Pixels],
    pool: ThreadPoolExecutor,
    batch_size: int,
    workers: int,
    on_error: OnError | None,
) -> Iterator[list[_Read]]:
    tasks: deque[_Task] = deque()
    ready: list[_Read] = []
    numbered = enumerate(sources)

    def submit_ahead() -> None:
        for index, source in islice(numbered, batch_size + workers - len(tasks)):
            tasks.append((index, source, pool.submit(read, source)))

    submit_ahead()
    while tasks:
        index, source, task = tasks.popleft()
        try:
            pixels, placement = task.result()
        except ImageError as error:
            if on_error is None:
                raise
            on_error(index, source, error)
        except Exception as error:
            error.add_note(
                f"while reading picture {index} of the sources: " + describe_source(source)
            )
            raise
        else:
            ready.append((index, pixels, placement))
        # Before a batch is handed out, so that its successor is decoded meanwhile.
        submit_ahead()
        if len(ready) == batch_size:
            yield ready
            ready = []
    if ready:
        yield ready


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}.")


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # containers and batch systems grant fewer than exist
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
