"""The pictures of a unit on their way through an encoder, and those that cannot be used."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import ImageError
from piaa.features.batches import Sources, sourced_batches
from piaa.images import ImageSource
from piaa.images.opening import describe_source, source_name
from piaa.scale.units import Readable
from piaa.scale.watching import Watch


class UnitImages:
    """Reads a unit once, counts, and keeps time.

    Attributes:
        count: pictures that went through.
        skipped: (name, reason) of the others.
    """

    def __init__(self, unit: Readable, watch: Watch) -> None:
        self._unit, self._watch = unit, watch
        self.count = 0
        self.skipped: list[tuple[str, str]] = []

    def batches(
        self, encoder: Encoder, *, batch_size: int | None
    ) -> Iterator[tuple[ImageFeatures, Sources]]:
        """Features and names of the pictures; a batch counts once it was dealt with."""
        batches = sourced_batches(
            encoder,
            self._unit.images(self._skip),
            batch_size=batch_size,
            on_error=self._on_error,
        )
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            images = 0 if batch is None else len(batch[0])
            self._watch.spend("encode", time.perf_counter() - start, images)
            if batch is None:
                return
            yield batch
            self.count += images
            self._watch.advance(images)

    @contextmanager
    def timed(self, stage: str, images: int) -> Iterator[None]:
        """Count the time that a block spends on some pictures."""
        start = time.perf_counter()
        yield
        self._watch.spend(stage, time.perf_counter() - start, images)

    def facts(self) -> dict[str, Any]:
        """For the unit's result, as JSON values."""
        return {"images": self.count, "skipped": self.skipped}

    def _on_error(self, index: int, source: ImageSource, error: ImageError) -> None:  # noqa: ARG002
        self._skip(source_name(source) or describe_source(source), error.reason)

    def _skip(self, name: str, reason: str) -> None:
        self.skipped.append((name, reason))
        self._watch.skip(name, reason)
