"""The process that decodes: `python -m piaa.serve.decoder FD JOB`, started by `piaa.serve.decoding`.

A parser of foreign bytes is where a service is attacked, so it runs apart. This process imports what
decoding needs, then forks a worker for every socket it is handed over the control socket FD. A worker
    - has a limit on its memory, and a clock that kills it (SIGALRM, which stops C code too);
    - can open nothing: it may have no more files than it starts with, and writes none, not even a core;
    - talks in frames of lengths, numbers and JSON, nothing that could run in the service.
Workers end when the service closes their socket, or dies. Signals meant for the service (Ctrl+C, a
service manager's SIGTERM to the whole group) are not for them: accepted requests are still decoded.

A frame to a worker: bytes of the picture (uint64), side of the preview or 0 (uint32), the picture.
A frame back: whether it went well (uint8), bytes of JSON (uint32), of pixels (uint64), JSON, pixels.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import socket
import struct
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

import torch
from PIL import Image
from torch import Tensor

from piaa.errors import ImageError
from piaa.images import Placement, Preprocessing, StoredImage, Tiles, fit_pixels, open_image
from piaa.images.formats import identify

REQUEST: Final = struct.Struct(">QI")
REPLY: Final = struct.Struct(">BIQ")
HELLO: Final = struct.Struct(">I")
LAST_WORDS: Final = ("decoding-stopped", "internal")
"""Problems after which a worker ends, since what its heap looks like is anyone's guess."""


@dataclass(frozen=True)
class Job:
    """What decoders do with every picture, and what they may use for it.

    Attributes:
        preprocessing, tiles: of the encoder; None: whole pictures alone.
        max_pixels: more are refused from the header alone.
        seconds, memory_bytes: for one picture.
    """

    preprocessing: Preprocessing
    tiles: Tiles | None
    max_pixels: int
    seconds: float
    memory_bytes: int

    def to_json(self) -> str:
        tiles = None if self.tiles is None else self.tiles.to_dict()
        return json.dumps(
            {**asdict(self), "preprocessing": self.preprocessing.to_dict(), "tiles": tiles}
        )

    @staticmethod
    def from_json(text: str) -> Job:
        values = json.loads(text)
        tiles = None if values["tiles"] is None else Tiles.from_dict(values["tiles"])
        preprocessing = Preprocessing.from_dict(values["preprocessing"])
        return Job(**{**values, "preprocessing": preprocessing, "tiles": tiles})


class Refusal(Exception):  # noqa: N818 -- an answer, not a failure of the worker
    """A picture that is not decoded: the slug of a problem, and its detail."""

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(slug, detail)
        self.slug, self.detail = slug, detail


class Canvases(NamedTuple):
    """(windows, 3, rows, columns) uint8, and where each lies in the picture."""

    pixels: Tensor
    placements: tuple[Placement, ...]


def open_bytes(data: bytes, max_pixels: int) -> Image.Image:
    """The upright RGB picture in a file's bytes; raises Refusal."""
    size = _claimed_size(data)
    if size is not None and size[0] * size[1] > max_pixels:
        raise Refusal(
            "too-many-pixels",
            f"The picture has {size[0]:,} x {size[1]:,} pixels; at most {max_pixels:,} in all are "
            "accepted.",
        )
    try:
        return open_image(StoredImage("sent", lambda: data), max_pixels=max_pixels)
    except ImageError as error:
        if isinstance(error.__cause__, MemoryError):
            raise MemoryError from error
        raise Refusal("not-a-picture", f"The picture cannot be read: {error.reason}.") from error


def _claimed_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) that a picture's header claims; None if it has none to be read."""
    try:
        return identify(io.BytesIO(data)).size
    except Exception:  # there is no one type; opening it will fail too, and say why
        return None


def lay_out(image: Image.Image, preprocessing: Preprocessing, tiles: Tiles | None) -> Canvases:
    """A picture as its encoder sees it: whole, then in windows if it is tiled (`TiledEncoder`)."""
    size = (image.height, image.width)
    shown = [fit_pixels(image, preprocessing)]
    if tiles is not None:
        squash = Preprocessing.from_dict({**preprocessing.to_dict(), "fit": "squash"})
        for box in tiles.boxes(*size)[1:]:
            top, left, bottom, right = box
            pixels, placement = fit_pixels(image.crop((left, top, right, bottom)), squash)
            shown.append((pixels, placement.inside(box, size)))
    return Canvases(torch.stack([p for p, _ in shown]), tuple(place for _, place in shown))


def decode(data: bytes, preview_side: int, job: Job) -> tuple[dict[str, Any], bytes]:
    """The JSON and the bytes of a good reply: canvases, then the preview (rows, columns, 3)."""
    image = open_bytes(data, job.max_pixels)
    canvases = lay_out(image, job.preprocessing, job.tiles)
    pixels = canvases.pixels.numpy().tobytes()
    members: dict[str, Any] = {
        "size": [image.height, image.width],
        "placements": [asdict(placement) for placement in canvases.placements],
        "preview": None,
    }
    if preview_side:
        image.thumbnail((preview_side, preview_side), Image.Resampling.BICUBIC)
        members["preview"] = [image.height, image.width]
        pixels += image.tobytes()
    return members, pixels


def receive(connection: socket.socket, count: int) -> bytearray | None:
    """Exactly `count` bytes, or None if the other side has closed."""
    data = bytearray(count)
    view, at = memoryview(data), 0
    while at < count:
        n = connection.recv_into(view[at:])
        if n == 0:
            return None
        at += n
    return data


def _work(connection: socket.socket, job: Job) -> None:
    """The life of a worker."""
    _confine(connection, job)
    connection.sendall(HELLO.pack(os.getpid()))
    while (head := receive(connection, REQUEST.size)) is not None:
        length, preview_side = REQUEST.unpack(head)
        data = receive(connection, length)
        if data is None:
            return
        signal.setitimer(signal.ITIMER_REAL, job.seconds)
        refusal: Refusal | None = None
        members: dict[str, Any] = {}
        pixels = b""
        try:
            members, pixels = decode(bytes(data), preview_side, job)
        except Refusal as known:
            refusal = known
        except MemoryError:
            limit = f"{job.memory_bytes:,} bytes"
            refusal = Refusal("decoding-stopped", f"It needs more memory than the limit, {limit}.")
        except Exception as error:
            refusal = Refusal("internal", f"Decoding failed with {type(error).__name__}.")
        signal.setitimer(signal.ITIMER_REAL, 0)
        if refusal is not None:
            members = {"slug": refusal.slug, "detail": refusal.detail}
        text = json.dumps(members).encode()
        connection.sendall(REPLY.pack(refusal is None, len(text), len(pixels)) + text)
        connection.sendall(pixels)
        if refusal is not None and refusal.slug in LAST_WORDS:
            return


def _confine(connection: socket.socket, job: Job) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # libraries complain about a picture's content on stderr
        os.dup2(nowhere, stream)
    os.close(nowhere)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    statm = Path("/proc/self/statm")
    if statm.exists():  # elsewhere the system does not enforce this limit either
        used = int(statm.read_text().split()[0]) * resource.getpagesize()
        limit = used + job.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # New descriptors get the lowest free number; all below this limit are taken.
    lowest = connection.fileno() + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, lowest))


def main(control_fd: int, job: Job) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps workers
    torch.set_num_threads(1)
    # Whatever is only imported on first use is imported now: workers can open no file.
    lay_out(Image.new("RGB", (64, 48)), job.preprocessing, job.tiles)
    control = socket.socket(fileno=control_fd)
    control.sendall(b"r")
    while True:
        wanted, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not wanted:
            os._exit(0)  # Python's own way out takes seconds, with all that is loaded
        if os.fork() == 0:
            # Into the lowest free number, so that the limit on descriptors leaves no gap.
            control.close()
            lowest = os.dup(descriptors[0])
            if lowest < descriptors[0]:
                os.close(descriptors[0])
            else:
                os.close(lowest)
                lowest = descriptors[0]
            try:
                # An OSError: the service is gone, or has given up on this worker.
                with contextlib.suppress(OSError):
                    _work(socket.socket(fileno=lowest), job)
            finally:
                os._exit(0)
        os.close(descriptors[0])


if __name__ == "__main__":
    main(int(sys.argv[1]), Job.from_json(sys.argv[2]))
