"""A batch over the cores of a CPU: each takes some pictures through the whole network by itself.

The threads of one operation wait for each other when it ends, and one that waits spins: it holds its core
against the threads that decode the next pictures, and against onnxruntime's, which multiply 8-bit numbers.
Cores that work on pictures of their own meet once a batch. The parts of a batch are the same on any number of
cores, and as long as there are no fewer of them than cores, so are the features, bit for bit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

Result = TypeVar("Result")

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def in_parts(run: Callable[[Tensor], Result], batch: Tensor, *, each: int) -> list[Result]:
    """`run` of each part of `each` rows (the last may be smaller), in order, without gradients.

    With no fewer parts than torch has threads here, each part has one of them; else one part after the
    other has them all.
    """
    parts = torch.split(batch, each)
    threads = torch.get_num_threads()
    if len(parts) < threads or threads == 1:
        return [_without_gradients(run, part) for part in parts]
    return list(_pool(threads).map(partial(_without_gradients, run), parts))


def _without_gradients(run: Callable[[Tensor], Result], part: Tensor) -> Result:
    with torch.no_grad():  # a setting of the thread
        return run(part)


def _pool(workers: int) -> ThreadPoolExecutor:
    """That many workers, in each of which torch has one thread."""
    with _lock:
        if workers not in _pools:
            started = threading.Barrier(workers + 1)

            def start() -> None:
                torch.get_num_threads()  # the first call in a thread resets what was set there
                torch.set_num_threads(1)
                started.wait()

            pool = ThreadPoolExecutor(workers, thread_name_prefix="piaa-core", initializer=start)
            for _ in range(workers):  # each starts a worker, as the others wait for all
                pool.submit(int)
            started.wait()
            # Torch takes a number set in any thread for the threads that are yet to come.
            torch.set_num_threads(workers)
            _pools[workers] = pool
        return _pools[workers]


def _forget_pools() -> None:
    """In a forked process there are the pools, and none of their threads."""
    global _lock
    _lock = threading.Lock()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pools)
