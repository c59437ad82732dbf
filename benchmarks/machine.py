"""What every benchmark prints first, and how every benchmark times."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch


def cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0].split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def describe() -> str:
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, {cpu_name()}, "
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    )


def in_turns(*runs: Callable[[], object], rounds: int = 5) -> list[list[float]]:
    """Seconds of each run in each round; the runs take turns, so that a slow moment hits all alike."""
    for run in runs:
        run()
    spent: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for times, run in zip(spent, runs, strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return spent


def side_by_side(*runs: Callable[[], object], rounds: int = 5) -> list[float]:
    """Best seconds of each run, taking turns."""
    return [min(times) for times in in_turns(*runs, rounds=rounds)]


def times_as_fast(
    run: Callable[[], object], than: Callable[[], object], *, rounds: int = 7
) -> float:
    """How many times as fast `run` is: the median over rounds in which the two take turns.

    Both sides of a round see the same machine, and a round in which one was held up does not count.
    """
    fast, slow = in_turns(run, than, rounds=rounds)
    return median(s / f for f, s in zip(fast, slow, strict=True))


def matmul_peak(size: int = 2048, rounds: int = 5) -> float:
    """Multiply-adds a second of a large float32 product on this machine."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    (seconds,) = side_by_side(lambda: a @ b, rounds=rounds)
    return size**3 / seconds
