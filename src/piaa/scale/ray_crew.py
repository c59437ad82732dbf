"""Actors that do units of work, and the driver that hands them out and hears what they say.

Nothing here imports ray: `piaa.scale.ray_engine` does, and passes it on.
"""

from __future__ import annotations

import os
import queue
import socket
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from piaa.encoders.base import Encoder
from piaa.errors import PiaaError
from piaa.scale.job import MANIFEST, Job
from piaa.scale.local import Messages, WorkOf
from piaa.scale.units import Unit
from piaa.scale.watching import Watch

MOST_TRIES: Final = 3
"""Actors that may die of one unit, or one after the other as they begin, before the job gives up."""
_SECONDS_OF_SILENCE: Final = 1.0

_Said: TypeAlias = list[tuple[str, Any]]


class Crew:
    """The driver's side: actors, the unit that each is at, and those that wait for one."""

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
        self._at: dict[Any, Unit | None] = {}
        self._idle: list[Any] = []
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
        self._at[actor] = None
        actor.begin.remote()
        self._asked[actor.news.remote()] = actor

    def _hear(self, actor: Any, what: str, details: Any) -> None:
        if what == "error":
            raise details
        if what == "ready":
            self._failed_starts = 0
            self._idle.append(actor)
        else:
            unit = self._at[actor]
            if unit is None:
                raise RuntimeError(f"An actor without a unit said {what!r}.")
            self._tellings[unit.number].hear(what, details)
            if what == "finish":
                self._left -= 1
                self._at[actor] = None
                self._idle.append(actor)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._idle and self._todo:
            actor, unit = self._idle.pop(), self._todo.popleft()
            self._at[actor] = unit
            self._tellings[unit.number].begin()
            actor.do.remote(unit, self._job.result(unit))

    def _replace(self, actor: Any, loss: Exception) -> None:
        unit = self._at.pop(actor)
        self._ray.kill(actor)  # it may only be out of reach
        if actor in self._idle:
            self._idle.remove(actor)
        elif unit is None:
            self._failed_starts += 1
            if self._failed_starts == MOST_TRIES:
                raise _given_up(f"{MOST_TRIES} actors died as they began", loss)
        else:
            if self._tellings[unit.number].tries == MOST_TRIES:
                raise _given_up(f"{MOST_TRIES} actors died of unit {unit.number}", loss)
            self._todo.appendleft(unit)
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

    def begin(self) -> None:
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
    """Does one unit at a time, and says meanwhile what is new: it runs two methods at once."""

    def __init__(
        self,
        work_of: WorkOf,
        make_encoder: Callable[[], Encoder],
        threads: int,
        cwd: Path,
        folder: Path,
    ) -> None:
        self._work_of, self._make_encoder, self._threads = work_of, make_encoder, threads
        self._cwd, self._folder = cwd, folder
        self._said: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._watch = Messages(self._said)

    def begin(self) -> None:
        with self._errors_said():
            try:
                os.chdir(self._cwd)  # names of pictures may be relative
                shared = (self._folder / MANIFEST).is_file()
            except OSError:
                shared = False
            if not shared:
                raise PiaaError(
                    f"{socket.gethostname()} does not see {self._cwd / self._folder}. Run piaa in a folder, "
                    "and let the output be in one, that all nodes of the cluster see under the same name."
                )
            self._work = self._work_of(self._make_encoder())
            self._said.put(("ready", ()))

    def do(self, unit: Unit, target: Path) -> None:
        import torch

        with self._errors_said():
            torch.set_num_threads(self._threads)
            self._watch.finish(self._work(unit, target, self._watch))

    def news(self) -> _Said:
        """What was said since, at once or as soon as there is something; nothing after a while."""
        said: _Said = []
        try:
            said.append(self._said.get(timeout=_SECONDS_OF_SILENCE))
            while True:
                said.append(self._said.get_nowait())
        except queue.Empty:
            return said

    @contextmanager
    def _errors_said(self) -> Iterator[None]:
        # As text: the errors of libraries cannot all be sent.
        try:
            yield
        except PiaaError as error:
            self._said.put(("error", PiaaError(str(error))))
        except Exception:
            self._said.put(("error", RuntimeError(f"In an actor:\n{traceback.format_exc()}")))
