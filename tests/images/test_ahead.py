"""Threads of a generator: waited for at its end, and not where it is left before."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from piaa.images.ahead import threads_ahead

SECONDS = 20


def threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("piaa-trial")]


def trial(begun: threading.Event, go: threading.Event) -> Iterator[int]:
    def work() -> None:
        begun.set()
        assert go.wait(SECONDS)

    with threads_ahead(1, "piaa-trial") as pool:
        pool.submit(work)
        dropped = pool.submit(work)
        yield 1
    assert dropped.cancelled()


@pytest.fixture
def go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()
    for thread in threads():
        thread.join(SECONDS)
    assert not threads()


def test_at_its_end_nothing_is_left(go: threading.Event) -> None:
    begun = threading.Event()
    stream = trial(begun, go)
    assert next(stream) == 1
    assert begun.wait(SECONDS)
    threading.Timer(0.05, go.set).start()
    assert list(stream) == []
    assert not threads()


def test_the_garbage_collector_does_not_wait(go: threading.Event) -> None:
    """As where an interrupted run is remembered by its traceback, and a later one starts a thread."""
    begun = threading.Event()
    stream = trial(begun, go)
    next(stream)
    assert begun.wait(SECONDS)
    circle: list[object] = [stream]
    circle.append(circle)
    del stream, circle
    collected = threading.Thread(target=gc.collect, daemon=True)
    collected.start()
    collected.join(SECONDS / 2)
    assert not collected.is_alive()
    assert threads(), "it works on, until it is done"


def test_errors_go_on(go: threading.Event) -> None:
    go.set()
    with pytest.raises(ValueError, match="mine"), threads_ahead(1, "piaa-trial"):
        raise ValueError("mine")
