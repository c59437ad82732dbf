"""What every benchmark prints first, and how every benchmark times."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch


def describe() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    return (
        f"torch {torch.__version__}, Python {platform.python_version()}, {cpu}, "
        f"{torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}"
    )


def side_by_side(*runs: Callable[[], object], rounds: int = 5) -> list[float]:
    """Best seconds of each run; the runs take turns, so that a slow moment hits all alike."""
    for run in runs:
        run()
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def matmul_peak(size: int = 2048, rounds: int = 5) -> float:
    """Multiply-adds a second of a large float32 product on this machine."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    (seconds,) = side_by_side(lambda: a @ b, rounds=rounds)
    return size**3 / seconds
