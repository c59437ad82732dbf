"""What tests of the command line share."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from typer.testing import Result

Run: TypeAlias = Callable[..., Result]
"""See the fixture `run`."""
Interrupt: TypeAlias = Callable[[int], AbstractContextManager[None]]
"""See the fixture `interrupt_at`."""


def png_header(width: int, height: int) -> bytes:
    """A small file that claims to be huge."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )
