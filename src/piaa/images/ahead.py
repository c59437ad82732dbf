"""Threads that work ahead of whoever takes their results out of a generator."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def threads_ahead(count: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """A pool for the body of a generator; what it has not begun by the end is dropped.

    Its threads are waited for, but not where the generator is left before its end. That may be the garbage
    collector's doing, in any thread and at any point: where a thread is just being started, say, whoever
    waited for another one to end would wait forever.
    """
    pool = ThreadPoolExecutor(count, thread_name_prefix=name)
    wait = True
    try:
        yield pool
    except GeneratorExit:
        wait = False
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)
