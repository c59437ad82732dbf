"""How many threads, and how many pictures at a time: what a short probe found best on this machine.

`piaa tune` runs the probe and keeps its result in piaa's cache; `load_encoder` takes the batch size from
there, and the command line the threads. Nothing is probed unasked: features may depend on batch and
threads in their last bits, and a collection that was begun should go on with the same.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from piaa.atomic import write_whole
from piaa.encoders.base import EncoderSpec
from piaa.encoders.package_index import cache_folder

BATCHES = (4, 8, 16, 32)
# A larger batch, or more threads, must be worth this much: both cost memory and leave less to others.
WORTH = 1.03
_CGROUP = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True)
class Tuning:
    """A choice and what it gave."""

    threads: int
    batch_size: int
    images_per_second: float


def possible_threads() -> list[int]:
    """Thread counts worth trying: what torch would take, the cores granted, and half of them.

    In a container torch counts the machine's cores, of which a quota may grant a few only.
    """
    granted = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _quota()
    if quota is not None:
        granted = max(1, min(granted, math.ceil(quota)))
    return sorted({granted, max(1, granted // 2), min(torch.get_num_threads(), granted)})


def _quota() -> float | None:
    """Cores that the container's quota grants; None without one."""
    try:
        limit, period = _CGROUP.read_text().split()
    except (OSError, ValueError):  # no such file, or a kernel that writes something else
        return None
    return None if limit == "max" else int(limit) / int(period)


def probe(
    make: Callable[[], Callable[[Tensor], object]],
    size: tuple[int, int],
    *,
    threads: Iterable[int],
    batches: Sequence[int] | None = None,
    rounds: int = 2,
) -> list[Tuning]:
    """Images a second for each number of threads and each batch size.

    Args:
        make: makes an encoder with as many threads as torch has then, and returns the call that encodes
            pixels (B, 3, rows, columns).
        size: rows and columns of the pixels.
    """
    batches = BATCHES if batches is None else batches
    found, before = [], torch.get_num_threads()
    try:
        for count in threads:
            torch.set_num_threads(count)
            encode = make()
            best = dict.fromkeys(batches, 0.0)
            for step in range(rounds + 1):  # the first is to warm up
                for batch in batches:
                    pixels = torch.zeros(batch, 3, *size)
                    start = time.perf_counter()
                    encode(pixels)
                    rate = batch / (time.perf_counter() - start)
                    best[batch] = max(best[batch], rate) if step else 0.0
            found += [Tuning(count, batch, rate) for batch, rate in best.items()]
    finally:
        torch.set_num_threads(before)
    return found


def choose(found: Sequence[Tuning]) -> Tuning:
    """The fewest threads and the smallest batch that come within 3 % of the best."""
    most = max(each.images_per_second for each in found)
    enough = [each for each in found if each.images_per_second * WORTH >= most]
    return min(enough, key=lambda each: (each.threads, each.batch_size))


def keep(spec: EncoderSpec, tuning: Tuning) -> None:
    """Write a choice down: the batch size for this encoder, the threads for this machine."""
    content = json.dumps({"encoder": spec.name, **asdict(tuning)}, indent=2) + "\n"
    for path in (_path(spec), _path(None)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.encode())


def kept(spec: EncoderSpec | None) -> Tuning | None:
    """What was found for an encoder, or last for any, on this machine; None if nothing was."""
    try:
        content: dict[str, Any] = json.loads(_path(spec).read_text())
        tuning = Tuning(
            int(content["threads"]), int(content["batch_size"]), float(content["images_per_second"])
        )
    except (OSError, ValueError, KeyError, TypeError):  # a hint that is lost costs a few percent
        return None
    return tuning if tuning.threads >= 1 and tuning.batch_size >= 1 else None


def use_kept_threads() -> None:
    """Give torch, and sessions that are opened from now on, the threads found best here.

    A number that the user set (OMP_NUM_THREADS) stands.
    """
    found = kept(None)
    if found is not None and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(found.threads)


def _path(spec: EncoderSpec | None) -> Path:
    parts = [platform.machine(), platform.processor(), str(possible_threads()[-1])]
    parts.append(torch.__version__)
    if spec is not None:
        parts += [spec.weights_sha256, spec.frontend, spec.precision]
        parts.append(str(spec.preprocessing.image_size))
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / "tuning" / f"{key}.json"
