"""One process at a time writes an output: a second one is told, instead of undoing the work of the first."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from piaa.errors import InputError

SUFFIX = ".lock"
# File systems without locks: there `piaa.atomic` still keeps files whole, and the last one wins.
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)

_claims: dict[str, _Claim] = {}
_guard = threading.Lock()


@dataclass
class _Claim:
    """A lock of this process (None: the system has none), and how many times it was asked for."""

    file: BinaryIO | None
    times: int = 0


@contextmanager
def claimed(target: Path) -> Iterator[None]:
    """Hold the file or folder `target`, which need not exist, against other processes.

    An empty `.<name>.lock` beside it is locked, and removed at the end. The system lets go of it when
    a process ends, however it does, so one that was left behind is in nobody's way. The same process
    may claim what it holds already. Windows has no such lock, and two runs are the user's to avoid.

    Raises:
        InputError: another process writes it.
        OSError: the lock cannot be made, as the output itself could not.
    """
    lock = target.with_name(f".{target.name}{SUFFIX}")
    key = os.path.realpath(lock)
    with _guard:
        claim = _claims.get(key) or _Claim(_locked(lock, target))
        claim.times += 1
        _claims[key] = claim
    try:
        yield
    finally:
        with _guard:
            claim.times -= 1
            if not claim.times:
                del _claims[key]
                if claim.file is not None:
                    # While it is held: who waits for this name finds that it is gone, and asks again.
                    lock.unlink(missing_ok=True)
                    claim.file.close()


def _locked(lock: Path, target: Path) -> BinaryIO | None:
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        file = lock.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(lock, file):
                return file
        except BlockingIOError as error:
            file.close()
            raise InputError(
                f"Another process is writing {os.fspath(target)!r}. Wait until it is done, end it, or "
                "give another name."
            ) from error
        except OSError as error:
            file.close()
            lock.unlink(missing_ok=True)
            if error.errno in _NO_LOCKS:
                return None
            raise
        file.close()


def _is_still(lock: Path, file: BinaryIO) -> bool:
    """Whether the name still belongs to the file that was locked, and not to a later one."""
    try:
        return os.path.samestat(lock.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
