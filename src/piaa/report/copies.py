"""Small copies of the photographs for the page, made in threads ahead of the encoder."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Final

from PIL import Image

from piaa.errors import ImageError
from piaa.images import OnError, open_image
from piaa.images.ahead import threads_ahead

THUMB_SIZE: Final = 384
_MOST_WORKERS = 8


def thumb_file(folder: Path, number: int) -> Path:
    return folder / "thumbs" / f"{number:06d}.jpg"


def photo_file(folder: Path, number: int) -> Path:
    return folder / "photos" / f"{number:06d}.jpg"


def write_copies(path: Path, number: int, folder: Path, photo_size: int) -> tuple[int, int]:
    """Write both copies of a photograph, upright and without its metadata.

    Returns (rows, columns) of the upright original. A picture is never enlarged.
    """
    picture = open_image(path)
    size = (picture.height, picture.width)
    picture.thumbnail((photo_size, photo_size), Image.Resampling.LANCZOS)
    picture.save(photo_file(folder, number), quality=82, progressive=True)
    picture.thumbnail((THUMB_SIZE, THUMB_SIZE), Image.Resampling.LANCZOS)
    picture.save(thumb_file(folder, number), quality=78)
    return size


def copied(
    paths: Sequence[Path], folder: Path, photo_size: int, on_error: OnError | None
) -> Iterator[tuple[int, tuple[int, int]]]:
    """(number, size) of each photograph once its copies are written, in order.

    A photograph that cannot be read raises ImageError; with `on_error` it is reported there and
    left out, so whoever reads those that come out of here meets none that fail.
    """
    workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    tasks: deque[tuple[int, Future[tuple[int, int]]]] = deque()
    numbers = iter(range(len(paths)))

    def submit(count: int) -> None:
        for number in islice(numbers, count):
            job = pool.submit(write_copies, paths[number], number, folder, photo_size)
            tasks.append((number, job))

    with threads_ahead(workers, "piaa-copies") as pool:
        submit(2 * workers)
        while tasks:
            number, task = tasks.popleft()
            try:
                size = task.result()
            except ImageError as error:
                if on_error is None:
                    raise
                on_error(number, paths[number], error)
            else:
                yield number, size
            submit(1)
