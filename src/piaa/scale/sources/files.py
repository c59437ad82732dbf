"""Single files: on this machine, or behind a URL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from piaa.images import ImageSource, StoredImage
from piaa.scale.sources.places import place_fingerprint, read_place, scheme_of


@dataclass(frozen=True, slots=True)
class FilePart:
    """One picture."""

    name: str

    @property
    def count(self) -> int:
        return 1

    def fingerprint(self) -> str:
        try:
            return place_fingerprint(self.name)
        except OSError:  # it is skipped and listed when its turn comes, as other bad files are
            return "unreadable"

    def images(self) -> Iterator[ImageSource]:
        if scheme_of(self.name) is None:
            yield self.name
        else:
            yield StoredImage(self.name, partial(read_place, self.name))
