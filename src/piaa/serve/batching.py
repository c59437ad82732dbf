"""Work of many requests done together: one queue, batches, a thread or two."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, TypeVar

from piaa.serve.problems import ProblemError

Item = TypeVar("Item")
Result = TypeVar("Result")

_LONGEST_RETRY = 60
# Weight of the latest batch in the seconds an item takes.
_NEWEST = 0.2


class Places:
    """The places a request holds in the queue, given back one by one or all at its end."""

    def __init__(self, batcher: Batcher[Item, Result], count: int) -> None:
        self._batcher, self._left = batcher, count

    def give_back(self, count: int = 1) -> None:
        count = min(count, self._left)
        self._left -= count
        self._batcher._leave(count)


class Batcher(Generic[Item, Result]):
    """Runs items of concurrent callers together, in threads of its own.

    An item first needs a place (`reserve`); places are bounded, which bounds the work accepted. A batch
    starts as soon as a thread is free and either it is full, or everyone who has a place is in it, or
    its first item has waited `max_wait` seconds. A lone caller therefore never waits for others.

    Args:
        run: maps items to as many results, in order; called in the threads, so safe there.
        max_batch: items in a batch.
        max_wait: seconds.
        capacity: places.
        threads: batches that run at once.
        on_batch: told the size of every batch.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Sequence[Result]],
        *,
        max_batch: int,
        max_wait: float,
        capacity: int,
        threads: int = 1,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._run = run
        self._max_batch, self._max_wait, self._capacity = max_batch, max_wait, capacity
        self._on_batch = on_batch
        self._queue: deque[tuple[Item, asyncio.Future[Result], float]] = deque()
        self._reserved = self._n_running = 0
        self._seconds = 0.05  # an item takes, so far as is known
        self._changed = asyncio.Event()
        self._closing = False
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="piaa-encoding")
        self._n_threads = threads
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def reserved(self) -> int:
        """Places taken."""
        return self._reserved

    @contextmanager
    def reserve(self, count: int) -> Iterator[Places]:
        """`count` places, or a ProblemError that says when to come back."""
        if self._reserved + count > self._capacity:
            wait = math.ceil(self._reserved * self._seconds)
            raise ProblemError(
                "busy",
                f"{self._reserved} pictures are waiting and {count} more would exceed "
                f"{self._capacity}.",
                headers={"Retry-After": str(min(max(wait, 1), _LONGEST_RETRY))},
            )
        self._reserved += count
        places = Places(self, count)
        try:
            yield places
        finally:
            places.give_back(count)

    async def submit(self, item: Item) -> Result:
        """The item's result. Cancelling takes it out of the queue, unless it is being run."""
        loop = asyncio.get_running_loop()
        if not self._tasks:
            self._tasks = [loop.create_task(self._serve()) for _ in range(self._n_threads)]
        future: asyncio.Future[Result] = loop.create_future()
        self._queue.append((item, future, loop.time()))
        self._changed.set()
        return await future

    async def close(self) -> None:
        """Finish what is queued, then end the threads."""
        self._closing = True
        self._changed.set()
        await asyncio.gather(*self._tasks)
        self._threads.shutdown()

    def _leave(self, count: int) -> None:
        self._reserved -= count
        self._changed.set()

    async def _serve(self) -> None:
        while await self._enough():
            batch: list[tuple[Item, asyncio.Future[Result]]] = []
            while self._queue and len(batch) < self._max_batch:
                item, future, _ = self._queue.popleft()
                if not future.done():  # else its request is gone
                    batch.append((item, future))
            if batch:
                self._n_running += len(batch)
                await self._run_batch(batch)
                self._n_running -= len(batch)

    async def _enough(self) -> bool:
        """Wait for a batch worth starting; False once closed and empty."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._queue:
                if self._closing:
                    return False
                left = None
            else:
                on_their_way = self._reserved - self._n_running
                everyone = len(self._queue) >= min(on_their_way, self._max_batch)
                left = self._queue[0][2] + self._max_wait - loop.time()
                if everyone or self._closing or left <= 0:
                    return True
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return True

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            items = [item for item, _ in batch]
            results = await loop.run_in_executor(self._threads, self._run, items)
            answered = list(zip(batch, results, strict=True))
        except Exception as error:
            if len(batch) > 1:  # the others shall not suffer for the one that fails
                for single in batch:
                    await self._run_batch([single])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
            return
        if self._on_batch is not None:
            self._on_batch(len(batch))
        self._seconds += _NEWEST * ((loop.time() - start) / len(batch) - self._seconds)
        for (_, future), result in answered:
            if not future.done():
                future.set_result(result)
