"""Numbers for Prometheus, in its text format (version 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from resource import getpagesize
from typing import Final

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64)

Labels = tuple[tuple[str, str], ...]


@dataclass
class Counter:
    """A number that only grows, for each combination of labels."""

    name: str
    about: str
    values: dict[Labels, float] = field(default_factory=dict)

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        self.values[key] = self.values.get(key, 0) + amount

    def lines(self) -> list[str]:
        head = _head(self.name, self.about, "counter")
        return head + [_sample(self.name, labels, v) for labels, v in sorted(self.values.items())]


@dataclass
class Histogram:
    """How often a number fell below each of some bounds."""

    name: str
    about: str
    bounds: Sequence[float]
    total: float = 0.0
    counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self) -> list[str]:
        lines, below = _head(self.name, self.about, "histogram"), 0
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            below += count
            lines.append(_sample(f"{self.name}_bucket", (("le", bound),), below))
        lines.append(_sample(f"{self.name}_sum", (), self.total))
        lines.append(_sample(f"{self.name}_count", (), below))
        return lines


class Metrics:
    """What a service counts."""

    def __init__(self) -> None:
        self.requests = Counter("piaa_requests_total", "Requests, by path and status.")
        self.images = Counter("piaa_images_total", "Pictures, by what became of them.")
        self.seconds = Histogram("piaa_request_seconds", "From head to answer, API only.", SECONDS)
        self.batches = Histogram("piaa_batch_size", "Pictures encoded together.", SIZES)

    def text(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> str:
        """Everything, with numbers that are read now: name -> (what it is, how to read it)."""
        lines: list[str] = []
        for metric in (self.requests, self.images, self.seconds, self.batches):
            lines += metric.lines()
        for name, (about, read) in gauges.items():
            lines += [*_head(name, about, "gauge"), _sample(name, (), read())]
        return "\n".join(lines) + "\n"


def resident_bytes() -> float:
    """Memory of this process, 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * getpagesize() if statm.exists() else 0


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _sample(name: str, labels: Labels, value: float) -> str:
    # Values of labels are ours (paths of routes, statuses), so nothing in them needs an escape.
    inside = ",".join(f'{key}="{text}"' for key, text in labels)
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"
