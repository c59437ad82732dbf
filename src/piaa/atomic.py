"""Files that are there as a whole or not at all, whenever the process or the machine stops."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SUFFIX = ".part"


@contextmanager
def whole_file(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to; it takes the target's name when the block ends well.

    By then its bytes are on the disk, and so is the name. If the block fails, what was there before
    is untouched and nothing is left behind; a killed process leaves a file `.<name>.*.part`.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{SUFFIX}")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(target: Path, *content: bytes | memoryview) -> None:
    """Write a file from what is in memory; see `whole_file`."""
    with whole_file(target) as temporary, temporary.open("xb") as file:
        file.writelines(content)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left; only where no other one is writing."""
    for path in folder.glob(f".*{SUFFIX}"):
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # where folders cannot be opened, and renaming is durable by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
