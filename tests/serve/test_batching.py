"""The batcher alone: what runs together, when, and what becomes of those that fail or leave."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from piaa.serve.batching import Batcher
from piaa.serve.problems import ProblemError


class Squares:
    """Squares numbers, and keeps the batches it was given; -13 is unlucky."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()

    def __call__(self, items: Sequence[int]) -> list[int]:
        time.sleep(self.seconds)
        self.threads.add(threading.get_ident())
        if -13 in items:
            raise ValueError("-13")
        self.batches.append(list(items))
        return [item * item for item in items]


def batcher(run: Squares, **options: float) -> Batcher[int, int]:
    settings = {"max_batch": 4, "max_wait": 1.0, "capacity": 100, **options}
    return Batcher(run, **settings)  # type: ignore[arg-type]


async def ask(batch: Batcher[int, int], items: Sequence[int]) -> list[int | BaseException]:
    with batch.reserve(len(items)):
        return await asyncio.gather(*map(batch.submit, items), return_exceptions=True)


def test_results_go_to_their_callers_in_batches_of_one_thread() -> None:
    run = Squares(0.01)

    async def main() -> None:
        batch = batcher(run)
        results = await asyncio.gather(*(ask(batch, [i, i + 1]) for i in range(0, 20, 2)))
        assert [value for pair in results for value in pair] == [i * i for i in range(20)]
        await batch.close()

    asyncio.run(main())
    assert max(map(len, run.batches)) == 4
    assert sorted(item for batch in run.batches for item in batch) == list(range(20))
    assert len(run.threads) == 1


def test_a_lone_caller_does_not_wait() -> None:
    async def main() -> float:
        batch = batcher(Squares(), max_wait=5.0)
        start = time.perf_counter()
        assert await ask(batch, [3]) == [9]
        taken = time.perf_counter() - start
        await batch.close()
        return taken

    assert asyncio.run(main()) < 2.0


def test_waits_for_those_on_their_way_but_not_for_ever() -> None:
    run = Squares()

    async def main() -> None:
        batch = batcher(run, max_wait=0.3)
        with batch.reserve(2):
            first = asyncio.create_task(batch.submit(1))
            await asyncio.sleep(0.05)
            assert run.batches == []  # the second one is expected
            second = asyncio.create_task(batch.submit(2))
            await asyncio.gather(first, second)
            assert run.batches == [[1, 2]]
        with batch.reserve(2):
            start = time.perf_counter()
            assert await batch.submit(5) == 25  # the other one never comes
            assert time.perf_counter() - start >= 0.29
        await batch.close()

    asyncio.run(main())


def test_a_place_given_back_is_not_waited_for() -> None:
    async def main() -> None:
        batch = batcher(Squares(), max_wait=5.0)
        with batch.reserve(2) as places:
            waiting = asyncio.create_task(batch.submit(1))
            await asyncio.sleep(0.05)
            places.give_back()
            start = time.perf_counter()
            assert await waiting == 1
            assert time.perf_counter() - start < 2.0
        assert batch.reserved == 0
        await batch.close()

    asyncio.run(main())


def test_one_that_fails_does_not_fail_the_others() -> None:
    async def main() -> None:
        batch = batcher(Squares())
        first, bad, last = await ask(batch, [2, -13, 4])
        assert (first, last) == (4, 16)
        assert isinstance(bad, ValueError)
        await batch.close()

    asyncio.run(main())


def test_those_that_leave_are_not_run() -> None:
    run = Squares(0.2)

    async def main() -> None:
        batch = batcher(run, max_batch=1)
        with batch.reserve(3):
            first = asyncio.create_task(batch.submit(1))
            await asyncio.sleep(0.05)  # it runs now
            second = asyncio.create_task(batch.submit(2))
            third = asyncio.create_task(batch.submit(3))
            await asyncio.sleep(0.05)
            second.cancel()
            assert await asyncio.gather(first, third) == [1, 9]
        await batch.close()

    asyncio.run(main())
    assert run.batches == [[1], [3]]


def test_beyond_the_capacity_callers_are_told_when_to_come_back() -> None:
    async def main() -> None:
        batch = batcher(Squares(), capacity=5)
        with batch.reserve(4):
            with pytest.raises(ProblemError, match="busy") as caught, batch.reserve(2):
                pass
            assert int(caught.value.headers["Retry-After"]) >= 1
            with batch.reserve(1):
                pass
        with batch.reserve(5):
            pass

    asyncio.run(main())


def test_two_threads_run_two_batches_at_once() -> None:
    together = threading.Barrier(2, timeout=20)

    def run(items: Sequence[int]) -> list[int]:
        together.wait()  # breaks if the other batch does not come
        return list(items)

    async def main() -> None:
        # However long the wait may be, the second batch does not wait for those in the first.
        batch = Batcher(run, max_batch=2, max_wait=60.0, capacity=9, threads=2)
        with batch.reserve(3):
            assert await asyncio.gather(*map(batch.submit, range(3))) == [0, 1, 2]
        await batch.close()

    asyncio.run(main())


def test_closing_finishes_what_is_queued() -> None:
    async def main() -> list[int]:
        batch = batcher(Squares(0.05), max_batch=2)
        with batch.reserve(6):
            tasks = [asyncio.create_task(batch.submit(i)) for i in range(6)]
            await asyncio.sleep(0.02)
            await batch.close()
            return [task.result() for task in tasks]

    assert asyncio.run(main()) == [0, 1, 4, 9, 16, 25]
