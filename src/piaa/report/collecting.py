"""One pass over the photographs: copies and maps go to files, the rest is small enough to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from piaa.errors import ImageError, InputError
from piaa.features.batches import feature_batches
from piaa.images import ImageSource, OnError
from piaa.recognizer import Recognizer
from piaa.report.copies import copied
from piaa.report.entries import BankPatch, entries_of
from piaa.report.page import MapWriter


@dataclass
class Collected:
    """What is known of all photographs, one item each; C classes.

    Attributes:
        paths: where each photograph is.
        numbers: of its copies' files; there are gaps where photographs were left out.
        sizes: (rows, columns) of each, upright.
        scores: (C,) uint16 each, see `Entry`.
        tags: columns of its tags, best first.
        patches: (place in these lists, patch) of every patch found in a bank.
        grid, windows: of every photograph's maps.
        skipped: photographs that could not be read, and why.
    """

    paths: list[Path] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    scores: list[npt.NDArray[np.uint16]] = field(default_factory=list)
    tags: list[list[int]] = field(default_factory=list)
    patches: list[tuple[int, BankPatch]] = field(default_factory=list)
    grid: tuple[int, int] = (1, 1)
    windows: int = 1
    skipped: list[tuple[Path, ImageError]] = field(default_factory=list)


def collect(
    recognizer: Recognizer,
    paths: Sequence[Path],
    folder: Path,
    *,
    threshold: float,
    photo_size: int,
    batch_size: int | None,
    on_error: OnError | None,
    on_photo: Callable[[], None] | None,
) -> Collected:
    """Encode the photographs in order and write their files into `folder`; see `write_report`."""
    found = Collected()

    def skip(index: int, source: ImageSource, error: ImageError) -> None:
        found.skipped.append((paths[index], error))
        if on_error is not None:
            on_error(index, source, error)

    def readable() -> Iterator[Path]:
        refuse = None if on_error is None else skip
        for number, size in copied(paths, folder, photo_size, refuse):
            found.paths.append(paths[number])
            found.numbers.append(number)
            found.sizes.append(size)
            yield paths[number]

    writer = MapWriter(folder)
    for batch in feature_batches(recognizer.encoder, readable(), batch_size=batch_size):
        found.grid, found.windows = batch.grid, batch.windows
        for entry in entries_of(recognizer, batch, threshold=threshold):
            found.patches += ((len(found.scores), patch) for patch in entry.patches)
            found.scores.append(entry.scores)
            found.tags.append(entry.tags)
            writer.add(entry.maps)
            if on_photo is not None:
                on_photo()
    writer.flush()
    if not found.scores:
        raise InputError(
            f"None of the {len(paths)} photographs could be read, so there is nothing to report."
        )
    return found
