"""Actors that do units of work, and the driver that hands them out and hears what they say.

Nothing here imports ray: `piaa.scale.ray_engine` does, and passes it on, and `piaa.scale.ray_reading`.
"""

from __future__ import annotations

import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from piaa.encoders.base import Encoder
from piaa.errors import PiaaError
from piaa.scale.fed_encoder import fed, reader_of
from piaa.scale.job import Job
from piaa.scale.local import Messages, WorkOf
from piaa.scale.ray_reading import Reading, ReadUnit
from piaa.scale.units import Readable, Unit
from piaa.scale.watching import Watch

MOST_TRIES: Final = 3
"""Actors that may die of one unit, or one after the other as they begin, before the job gives up."""
_SECONDS_OF_SILENCE: Final = 1.0

_Said: TypeAlias = list[tuple[str, Any]]


class Crew:
    """The driver's side: actors, the unit that each is at and the next, and those that wait for one."""

    def __init__(
        self,
        ray: Any,
        start: Callable[[], Any],
        job: Job,
        units: Sequence[Unit],
        watch: Watch,
    ) -> None:
        self._ray, self._start, self._job = ray, start, job
        self._todo, self._left = deque(units), len(units)
        self._tellings = {unit.number: _Telling(watch) for unit in units}
        self._asked: dict[Any, Any] = {}
        self._at: dict[Any, deque[Unit]] = {}
        self._ready: set[Any] = set()
        self._failed_starts = 0
        exceptions = ray.exceptions
        self._losses = (exceptions.RayActorError, exceptions.OutOfMemoryError)

    def work_off(self, count: int) -> None:
        try:
            for _ in range(count):
                self._hire()
            while self._left:
                (ref, *_), _ = self._ray.wait(list(self._asked))
                actor = self._asked.pop(ref)
                try:
                    said: _Said = self._ray.get(ref)
                except self._losses as loss:
                    self._replace(actor, loss)
                    continue
                for what, details in said:
                    self._hear(actor, what, details)
                self._asked[actor.news.remote()] = actor
        finally:
            for actor in self._at:
                self._ray.kill(actor)

    def _hire(self) -> None:
        actor = self._start()
        self._at[actor] = deque()
        self._asked[actor.news.remote()] = actor

    def _hear(self, actor: Any, what: str, details: Any) -> None:
        if what == "error":
            raise details
        if what == "ready":
            self._failed_starts = 0
            self._ready.add(actor)
        else:
            units = self._at[actor]
            if not units:
                raise RuntimeError(f"An actor without a unit said {what!r}.")
            self._tellings[units[0].number].hear(what, details)
            if what == "finish":
                self._left -= 1
                units.popleft()
        self._hand_out()

    def _hand_out(self) -> None:
        """A unit to each actor, and another to be read meanwhile, unless it is one of the last."""
        for ahead in (0, 1):
            for actor, units in self._at.items():
                enough = len(self._todo) > ahead * len(self._at)
                if actor in self._ready and len(units) == ahead and enough:
                    unit = self._todo.popleft()
                    units.append(unit)
                    actor.do.remote(unit, self._job.result(unit))

    def _replace(self, actor: Any, loss: Exception) -> None:
        units = self._at.pop(actor)
        self._ray.kill(actor)  # it may only be out of reach
        if actor not in self._ready:
            self._failed_starts += 1
            if self._failed_starts == MOST_TRIES:
                raise _given_up(f"{MOST_TRIES} actors died as they began", loss)
        elif units:
            first = self._tellings[units[0].number]
            first.failed()
            if first.tries == MOST_TRIES:
                raise _given_up(f"{MOST_TRIES} actors died of unit {units[0].number}", loss)
            self._todo.extendleft(reversed(units))
        self._ready.discard(actor)
        self._hire()
        self._hand_out()


def _given_up(what: str, loss: Exception) -> PiaaError:
    return PiaaError(
        f"{what}, often for want of memory. What was finished is kept: run the same again to go on, "
        f"perhaps with fewer actors. Ray says: {str(loss).strip()}"
    )


class _Telling:
    """Tells a watch of a unit. Who does a unit again repeats what was told by the one who died of it."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.tries = 0
        self._heard = {"advance": 0, "skip": 0}
        self._told = dict(self._heard)

    def failed(self) -> None:
        self.tries += 1
        self._heard = dict.fromkeys(self._heard, 0)

    def hear(self, what: str, details: tuple[Any, ...]) -> None:
        if what in self._heard:
            self._heard[what] += details[0] if what == "advance" else 1
            new = self._heard[what] - self._told[what]
            if new <= 0:
                return
            self._told[what] += new
            details = (new,) if what == "advance" else details
        getattr(self._watch, what)(*details)


class Actor:
    """Does units, in a thread: its methods take no time, and what is new can be asked for meanwhile."""

    def __init__(
        self, work_of: WorkOf, make_encoder: Callable[[], Encoder], threads: int, reading: Reading
    ) -> None:
        self._work_of, self._make_encoder = work_of, make_encoder
        self._threads, self._reading = threads, reading
        self._said: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._watch = Messages(self._said)
        self._todo: queue.Queue[tuple[Readable, Path]] = queue.Queue()
        threading.Thread(target=self._work_off, daemon=True).start()

    def do(self, unit: Unit, target: Path) -> None:
        """Begin to read a unit; it is worked on when those before it are done."""
        tables = partial(self._reading.tables, unit, self._reader)
        self._todo.put((ReadUnit(tables, self._watch), target))

    def news(self) -> _Said:
        """What was said since, at once or as soon as there is something; nothing after a while."""
        said: _Said = []
        try:
            said.append(self._said.get(timeout=_SECONDS_OF_SILENCE))
            while True:
                said.append(self._said.get_nowait())
        except queue.Empty:
            return said

    def _work_off(self) -> None:
        import torch

        with self._errors_said():
            torch.set_num_threads(self._threads)
            self._reading.place.enter()
            encoder = self._make_encoder()
            self._reader = reader_of(encoder)
            work = self._work_of(fed(encoder))
            self._said.put(("ready", ()))
            while True:
                unit, target = self._todo.get()
                # At once: what is said next must be of the next unit.
                work(unit, target, self._watch).finish().tell(self._watch)

    @contextmanager
    def _errors_said(self) -> Iterator[None]:
        # As text: the errors of libraries cannot all be sent.
        try:
            yield
        except PiaaError as error:
            self._said.put(("error", PiaaError(str(error))))
        except Exception:
            self._said.put(("error", RuntimeError(f"In an actor:\n{traceback.format_exc()}")))
