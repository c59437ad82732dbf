"""What a long job tells while it runs, and what it adds up to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol


class Watch(Protocol):
    """Is told of everything that happens, in the process that started the job."""

    def advance(self, images: int) -> None:
        """So many more pictures went through."""

    def skip(self, name: str, reason: str) -> None:
        """A picture, or the rest of a shard, cannot be used. What this raises ends the job."""

    def spend(self, stage: str, seconds: float, images: int) -> None:
        """A stage worked so long on so many pictures."""

    def finish(self, images: int, *, earlier: bool = False) -> None:
        """A unit is done, with so many pictures; `earlier` if it was by a run before this one."""


@dataclass
class Stage:
    """Time of one stage, added up over all processes."""

    seconds: float = 0.0
    images: int = 0

    @property
    def rate(self) -> float:
        """Pictures a second of that time."""
        return self.images / self.seconds if self.seconds else 0.0


@dataclass
class Tally:
    """A `Watch` that counts.

    Attributes:
        total: pictures of the whole job; None if not known beforehand.
        units: of the whole job.
        images, finished: pictures and units done, by this run and those before it.
        earlier: pictures among them that runs before this one did.
        skipped: (name, reason) of what could not be used.
        stages: by name, in the order they were first heard of.
    """

    total: int | None
    units: int
    images: int = 0
    earlier: int = 0
    finished: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    stages: dict[str, Stage] = field(default_factory=dict)
    _start: float = field(default_factory=lambda: time.monotonic())
    _finished_earlier: int = 0

    def advance(self, images: int) -> None:
        self.images += images

    def skip(self, name: str, reason: str) -> None:
        self.skipped.append((name, reason))

    def spend(self, stage: str, seconds: float, images: int) -> None:
        spent = self.stages.setdefault(stage, Stage())
        spent.seconds += seconds
        spent.images += images

    def finish(self, images: int, *, earlier: bool = False) -> None:
        self.finished += 1
        if earlier:
            self.images += images
            self.earlier += images
            self._finished_earlier += 1

    @property
    def seconds(self) -> float:
        """Since this run began."""
        return max(time.monotonic() - self._start, 1e-9)

    @property
    def rate(self) -> float:
        """Pictures a second, of this run."""
        return (self.images - self.earlier) / self.seconds

    @property
    def seconds_left(self) -> float | None:
        """By the pictures that are left, or by units if those are not known; None before there is any."""
        if self.total is not None:
            left = self.total - self.images - len(self.skipped)
            return max(0, left) / self.rate if self.rate else None
        done = self.finished - self._finished_earlier
        return self.seconds * (self.units - self.finished) / done if done else None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        left = self.seconds_left
        return {
            "images": self.images,
            "total": self.total,
            "earlier": self.earlier,
            "skipped": len(self.skipped),
            "units_done": self.finished,
            "units": self.units,
            "images_per_second": round(self.rate, 2),
            "seconds": round(self.seconds, 3),
            "seconds_left": None if left is None else round(left, 1),
            "stages": {
                name: {
                    "seconds": round(stage.seconds, 3),
                    "images_per_second": round(stage.rate, 2),
                }
                for name, stage in self.stages.items()
            },
        }
