"""Units of work done on this machine: in this process, or in several."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from piaa.encoders.base import Encoder
from piaa.errors import InputError, PiaaError
from piaa.scale.job import Job
from piaa.scale.units import Readable, Unit
from piaa.scale.watching import Watch


@dataclass(frozen=True)
class Worked:
    """What came of a unit of so many pictures; `write` writes it, whole or not at all.

    That may happen in a thread while the next unit is worked on.
    """

    images: int
    write: Callable[[], None]

    def finish(self) -> Saved:
        """Write the result."""
        start = time.perf_counter()
        self.write()
        return Saved(self.images, time.perf_counter() - start)


@dataclass(frozen=True)
class Saved:
    """A unit that is done: its pictures, and the seconds that it took to write what came of them."""

    images: int
    seconds: float

    def tell(self, watch: Watch) -> None:
        watch.spend("save", self.seconds, self.images)
        watch.finish(self.images)


class Work(Protocol):
    """What is done with a unit: `target` is where its result goes."""

    def __call__(self, unit: Readable, target: Path, watch: Watch) -> Worked: ...


WorkOf: TypeAlias = Callable[[Encoder], Work]
Combine: TypeAlias = Callable[[Sequence[Path], Path], None]
"""Combines some results into one file, written whole or not at all."""


class Engine(Protocol):
    """Does units somewhere."""

    def run(
        self, work_of: WorkOf, encoder: Encoder, job: Job, units: Sequence[Unit], watch: Watch
    ) -> Work | None:
        """Do all the units; `watch` is told in this process of what happens in any.

        Args:
            work_of: makes the work that an encoder does; can be sent to another process.
            encoder: of this process.

        Returns:
            The work that did every unit, if it is here: it may know what they come to.
        """

    def reduce(self, combine: Combine, job: Job, results: Sequence[Path]) -> Sequence[Path]:
        """Results that are the given ones together and in order, perhaps fewer, among the job's files."""


class Here:
    """One unit after the other, in this process."""

    def run(
        self, work_of: WorkOf, encoder: Encoder, job: Job, units: Sequence[Unit], watch: Watch
    ) -> Work:
        work = work_of(encoder)
        _work_off(work, ((unit, job.result(unit)) for unit in units), watch)
        return work

    def reduce(self, combine: Combine, job: Job, results: Sequence[Path]) -> Sequence[Path]:  # noqa: ARG002
        return results  # whoever reads them adds them up as fast


def _work_off(work: Work, tasks: Iterable[tuple[Unit, Path]], watch: Watch) -> None:
    """Do units one after the other; the result of each is written while the next is worked on."""
    with ThreadPoolExecutor(1, thread_name_prefix="piaa-results") as thread:
        behind = _Behind(watch)
        for unit, target in tasks:
            worked = work(unit, target, behind)
            behind.wait()
            behind.saving = thread.submit(worked.finish)
        behind.wait()


class _Behind:
    """A `Watch` that also tells of the unit before, as soon as its result is on disk."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.saving: Future[Saved] | None = None

    def wait(self) -> None:
        if self.saving is not None:
            saved, self.saving = self.saving.result(), None
            saved.tell(self._watch)

    def advance(self, images: int) -> None:
        if self.saving is not None and self.saving.done():
            self.wait()
        self._watch.advance(images)

    def skip(self, name: str, reason: str) -> None:
        self._watch.skip(name, reason)

    def spend(self, stage: str, seconds: float, images: int) -> None:
        self._watch.spend(stage, seconds, images)

    def finish(self, images: int, *, earlier: bool = False) -> None:
        self._watch.finish(images, earlier=earlier)


@dataclass(frozen=True)
class Processes:
    """Several processes, each with an encoder of its own; they share nothing but the job's folder.

    Attributes:
        count: how many.
        make_encoder: called in each process; must give what the parent's encoder is. It can be sent to
            another process: a function of a module, or a `functools.partial` of one.
        threads: torch's threads in each.
    """

    count: int
    make_encoder: Callable[[], Encoder]
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("count", "threads"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(
                    f"{name} of processes must be a whole number of at least 1, not {value!r}."
                )

    def run(
        self, work_of: WorkOf, encoder: Encoder, job: Job, units: Sequence[Unit], watch: Watch
    ) -> None:
        del encoder  # of this process; the others make their own
        # Started afresh: a forked child would inherit threads of torch that no longer run.
        context = get_context("spawn")
        todo: queue.Queue[tuple[Unit, Path] | None] = context.Queue()  # type: ignore[assignment]
        said: queue.Queue[tuple[str, Any]] = context.Queue()  # type: ignore[assignment]
        for unit in units:
            todo.put((unit, job.result(unit)))
        workers = [
            context.Process(
                target=_do_units,
                args=(work_of, self.make_encoder, self.threads, todo, said),
                daemon=True,
            )
            for _ in range(min(self.count, len(units)))
        ]
        try:
            for worker in workers:
                todo.put(None)
                worker.start()
            _listen(said, workers, len(units), watch)
        finally:
            for worker in workers:
                worker.terminate()
                worker.join()

    def reduce(self, combine: Combine, job: Job, results: Sequence[Path]) -> Sequence[Path]:
        return Here().reduce(combine, job, results)


def _listen(
    said: queue.Queue[tuple[str, Any]], workers: Sequence[BaseProcess], units: int, watch: Watch
) -> None:
    """Pass on what workers say until all units are done."""
    while units:
        try:
            what, details = said.get(timeout=0.5)
        except queue.Empty:
            dead = [worker for worker in workers if worker.exitcode not in (None, 0)]
            if dead:
                raise PiaaError(
                    f"A worker process ended by itself (exit code {dead[0].exitcode}; -9 is often the "
                    "system out of memory). What was finished is kept: run the same again to go on, perhaps "
                    "with fewer processes."
                ) from None
            continue
        if what == "error":
            raise details
        getattr(watch, what)(*details)
        units -= what == "finish"


def _do_units(
    work_of: WorkOf,
    make_encoder: Callable[[], Encoder],
    threads: int,
    todo: queue.Queue[tuple[Unit, Path] | None],
    said: queue.Queue[tuple[str, Any]],
) -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends its workers
    torch.set_num_threads(threads)
    watch = Messages(said)
    try:
        _work_off(work_of(make_encoder()), iter(todo.get, None), watch)
    except PiaaError as error:
        said.put(("error", PiaaError(str(error))))


class Messages:
    """A `Watch` of another process."""

    def __init__(self, said: queue.Queue[tuple[str, Any]]) -> None:
        self._said = said

    def advance(self, images: int) -> None:
        self._said.put(("advance", (images,)))

    def skip(self, name: str, reason: str) -> None:
        self._said.put(("skip", (name, reason)))

    def spend(self, stage: str, seconds: float, images: int) -> None:
        self._said.put(("spend", (stage, seconds, images)))

    def finish(self, images: int, *, earlier: bool = False) -> None:
        if not earlier:
            self._said.put(("finish", (images,)))
