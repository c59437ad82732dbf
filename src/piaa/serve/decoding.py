"""Bytes -> pixels, in processes apart (`piaa.serve.decoder`) that may fail without harm."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import os
import select
import signal
import socket
import subprocess
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from piaa.errors import PiaaError
from piaa.images import Placement
from piaa.serve.decoder import HELLO, LAST_WORDS, REPLY, REQUEST, Job, receive
from piaa.serve.problems import ProblemError

_log = logging.getLogger("piaa.serve")
# A worker ends itself in time. One that does not answer for this much longer is ended from here.
_GRACE_SECONDS = 5.0
_START_SECONDS = 120.0
_MOST_JSON = 1_000_000


@dataclass(frozen=True)
class Decoded:
    """A picture as its encoder takes it.

    Attributes:
        size: (rows, columns) of the upright picture.
        pixels: (windows, 3, rows, columns) uint8.
        placements: of the windows in the picture.
        preview: the picture made small, if that was asked for.
    """

    size: tuple[int, int]
    pixels: Tensor
    placements: tuple[Placement, ...]
    preview: Image.Image | None


class _Worker:
    """One decoding process and the socket to it; used by one thread at a time."""

    def __init__(self, connection: socket.socket, job: Job) -> None:
        self._connection, self._job = connection, job
        connection.settimeout(_START_SECONDS)
        self._pid = HELLO.unpack(self._receive(HELLO.size))[0]
        connection.settimeout(job.seconds + _GRACE_SECONDS)

    def decode(self, data: bytes, preview_side: int) -> Decoded:
        """Raises ProblemError if the picture is refused, OSError if the worker is no more."""
        self._connection.sendall(REQUEST.pack(len(data), preview_side))
        self._connection.sendall(data)
        ok, n_text, n_pixels = REPLY.unpack(self._receive(REPLY.size))
        if n_text > _MOST_JSON:
            raise OSError("a reply that no decoder sends")
        members = json.loads(self._receive(n_text))
        if not ok:
            raise ProblemError(members["slug"], members["detail"])
        return self._read(members, n_pixels)

    def _read(self, members: dict[str, Any], n_pixels: int) -> Decoded:
        windows = 1 if self._job.tiles is None else len(self._job.tiles)
        shape = (windows, 3, *self._job.preprocessing.image_size)
        n_canvases = math.prod(shape)
        preview = members["preview"]
        n_preview = 0 if preview is None else 3 * preview[0] * preview[1]
        if n_pixels != n_canvases + n_preview:
            raise OSError("a reply that no decoder sends")
        pixels = self._receive(n_canvases)
        small = self._receive(n_preview)
        return Decoded(
            size=(members["size"][0], members["size"][1]),
            pixels=torch.frombuffer(pixels, dtype=torch.uint8).view(shape),
            placements=tuple(
                Placement(tuple(p["original_size"]), tuple(p["canvas_size"]), tuple(p["box"]))
                for p in members["placements"]
            ),
            preview=Image.frombytes("RGB", (preview[1], preview[0]), bytes(small))
            if preview
            else None,
        )

    def _receive(self, count: int) -> bytearray:
        data = receive(self._connection, count)
        if data is None:
            raise EOFError("the decoder has ended")
        return data

    def alive(self) -> bool:
        """Whether it still waits for work: an idle worker has nothing to say but goodbye."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return not poll.poll(0)

    def end(self) -> None:
        # Its end of the socket is open until it ends, so the number is still its own, or nobody's.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self._connection.close()


class _Nursery:
    """The process that workers are forked from."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._control, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "piaa.serve.decoder", str(theirs.fileno())]
            self._process = subprocess.Popen(  # noqa: S603 -- this very package
                [*command, job.to_json()],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._control.settimeout(_START_SECONDS)
        if receive(self._control, 1) is None:
            self.close()
            raise PiaaError("The process that decodes pictures did not start; see its error above.")

    def worker(self) -> _Worker:
        """A new worker; OSError or EOFError if this process is no more."""
        here, there = socket.socketpair()
        try:
            with there:
                socket.send_fds(self._control, [b"w"], [there.fileno()])
            return _Worker(here, self._job)
        except (OSError, EOFError):
            here.close()
            raise

    def close(self) -> None:
        self._control.close()  # upon which it ends
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class DecoderPool:
    """Decodes pictures in `workers` processes; those that hang or die are replaced.

    `start` before, `close` after use; both take their time. `replaced` counts the workers that were.
    """

    def __init__(self, job: Job, *, workers: int) -> None:
        self.job = job
        self.replaced = 0
        self._workers = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="piaa-decoding")
        self._idle: deque[_Worker] = deque()
        self._lock = Lock()
        self._nursery: _Nursery | None = None

    def start(self) -> None:
        self._nursery = _Nursery(self.job)
        self._idle.extend(self._nursery.worker() for _ in range(self._workers))

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        while self._idle:
            self._idle.pop().close()
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None

    async def decode(self, data: bytes, *, preview_side: int = 0) -> Decoded:
        """A picture on its encoder's canvas; raises ProblemError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._decode, data, preview_side)

    def _decode(self, data: bytes, preview_side: int) -> Decoded:
        worker = self._take()
        try:
            decoded = worker.decode(data, preview_side)
        except ProblemError as problem:
            if problem.slug in LAST_WORDS:
                self._replace(worker, problem.detail)
            else:
                self._idle.append(worker)
            raise
        except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
            self._replace(worker, "it fell silent")
            raise ProblemError(
                "decoding-stopped",
                f"Decoding was stopped: it took more than {self.job.seconds:g} seconds, or the "
                "picture is made such that its decoder crashes.",
            ) from error
        self._idle.append(worker)
        return decoded

    def _replace(self, worker: _Worker, reason: str) -> None:
        worker.end()
        self.replaced += 1
        _log.warning("a decoder was stopped: %s", reason)

    def _take(self) -> _Worker:
        while True:
            try:
                worker = self._idle.pop()
            except IndexError:
                break
            if worker.alive():
                return worker
            worker.end()
        with self._lock:
            if self._nursery is None:
                raise PiaaError("The decoders are not started, or closed already.")
            try:
                return self._nursery.worker()
            except (OSError, EOFError):
                _log.warning("the process that decoders come from has ended; starting another")
                self._nursery.close()
                self._nursery = _Nursery(self.job)
                return self._nursery.worker()
