"""The input of a long job, cut into units of work that are done, and done again, as a whole.

A unit always holds the same pictures in the same order, so that it gives the same bytes whenever it
is done: encoders differ in the last bit from one batch size to another, and batches start with a unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from piaa.errors import InputError
from piaa.images import ImageSource
from piaa.scale.sources import Part, SourceError

UNIT_SIZE: Final = 512
"""Pictures in a unit. A multiple of all default batch sizes: then a job in units sees the batches of one
without, and gives the same bits."""


class Readable(Protocol):
    """What it takes to work on a unit, wherever its pictures are read."""

    def images(self, on_broken: Callable[[str, str], None]) -> Iterator[ImageSource]:
        """Its pictures; on_broken(name, reason) for a part that cannot be read on."""


@dataclass(frozen=True)
class Unit:
    """Some parts of the input, by number."""

    number: int
    parts: tuple[Part, ...]

    @property
    def count(self) -> int | None:
        """Pictures in it, if that is known before they are read."""
        counts = [part.count for part in self.parts]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def images(self, on_broken: Callable[[str, str], None]) -> Iterator[ImageSource]:
        """The pictures of all parts; on_broken(name, reason) for a part that cannot be read on."""
        for part in self.parts:
            try:
                yield from part.images()
            except SourceError as error:
                on_broken(part.name, str(error).rstrip("."))


def cut(parts: Sequence[Part], size: int = UNIT_SIZE) -> list[Unit]:
    """Units of `size` pictures, in order. What cannot be cut is one unit, whatever its size: a tar shard
    (how many pictures it holds shows when it is read) and a group of rows."""
    if type(size) is not int or size < 1:
        raise InputError(f"The size of a unit must be a whole number of at least 1, not {size!r}.")
    groups: list[list[Part]] = []
    room = 0
    for part in parts:
        if part.count is None or part.count > room:
            groups.append([])
            room = size
        groups[-1].append(part)
        room = 0 if part.count is None else room - part.count
    return [Unit(number, tuple(group)) for number, group in enumerate(groups)]
