"""What the rest of piaa knows of a source: parts that are read on their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from piaa.errors import PiaaError
from piaa.images import ImageSource


class SourceError(PiaaError):
    """A part of the input, such as a tar shard, that cannot be read on."""


class Part(Protocol):
    """A file, a shard or a group of rows. It is small, and can be sent to another process."""

    @property
    def name(self) -> str:
        """Different from that of all other parts."""

    @property
    def count(self) -> int | None:
        """Pictures in it; None if only reading it would tell."""

    def fingerprint(self) -> str:
        """Changes when the content does, and is had without reading that."""

    def images(self) -> Iterator[ImageSource]:
        """Its pictures as paths or `StoredImage`s, always in the same order.

        Raises:
            SourceError: the part cannot be read, or not to its end.
        """
