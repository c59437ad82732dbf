"""Runs mutated files through the loaders, in a child process that can be starved, killed and watched.

    python tests/trust/fuzzing.py <seed> <folder> <target> <start> <stop>

is the child. A case is made from (seed, target, number) alone, so that each can be run again by itself.
Held against every case: an error is a `PiaaError`, it ends within a second of processor time and a set
amount of memory, writes nothing outside of its folder, starts no process, opens no connection and
unpickles no object; and what is accepted is what the target says it must be.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

SECONDS = 1.0
MEMORY = 2**30
"""Bytes a child may map on top of what the loaded program itself takes."""
HANG = 20
"""Seconds after which a child is killed; time on a busy machine is not the child's own."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FORBIDDEN = (
    "pickle.find_class",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "socket.connect",
)
_CHANGING = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
)


@dataclass
class Tally:
    """What became of the cases of a target."""

    cases: int = 0
    accepted: int = 0
    slowest: float = 0.0
    peak_mb: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)


def fuzz(plan: dict[str, int], folder: Path, *, seed: int = 0) -> dict[str, Tally]:
    """Run so many cases of each target; a child that dies is a finding, and its successor goes on."""
    tallies = {name: Tally() for name in plan}
    waiting = [(name, 0, count) for name, count in plan.items()]
    folder.mkdir(parents=True, exist_ok=True)
    place, errors = folder / "progress", folder / "errors"
    place.unlink(missing_ok=True)
    while waiting:
        work = [f"{name}:{start}:{stop}" for name, start, stop in waiting]
        with errors.open("wb") as said:  # decoders written in C complain there
            child = subprocess.run(
                [sys.executable, __file__, str(seed), str(folder), *work],
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PIAA_CACHE": str(folder / "cache")},
                check=False,
            )
        for line in child.stdout.splitlines():
            _note(tallies, json.loads(line))
        if child.returncode == 0:
            break
        if child.returncode > 0 or not place.exists():
            raise RuntimeError(
                f"Fuzzing itself failed: {errors.read_text(errors='replace')[-2000:]}"
            )
        name, number = place.read_text().split()
        kind = "hang" if child.returncode == -signal.SIGALRM else f"died ({child.returncode})"
        tallies[name].findings.append({"case": int(number), "kind": kind, "detail": ""})
        done = [some for some, _, _ in waiting].index(name)
        waiting = [(name, int(number) + 1, waiting[done][2]), *waiting[done + 1 :]]
    return tallies


def _note(tallies: dict[str, Tally], told: dict[str, Any]) -> None:
    tally = tallies[told.pop("target")]
    if "kind" in told:
        tally.findings.append(told)
        return
    tally.cases += told["cases"]
    tally.accepted += told["accepted"]
    tally.slowest = max(tally.slowest, told["slowest"])
    tally.peak_mb = max(tally.peak_mb, told["peak_mb"])


class Watch:
    """Notes what the interpreter is asked to do and no loader has any business doing."""

    def __init__(self, folder: Path) -> None:
        self._inside = f"{folder.resolve()}{os.sep}"
        self._seen: list[str] = []
        self._on = False
        sys.addaudithook(self._hear)

    def __enter__(self) -> list[str]:
        self._seen, self._on = [], True
        return self._seen

    def __exit__(self, *_: object) -> None:
        self._on = False

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self._on:
            return
        if event in _FORBIDDEN:
            self._seen.append(f"{event}{args!r:.200}")
        opened = event == "open" and isinstance(args[2], int) and args[2] & _WRITING
        if opened or event in _CHANGING:
            self._check(event, args[0])

    def _check(self, event: str, path: object) -> None:
        if isinstance(path, str | bytes | os.PathLike):
            where = os.path.realpath(os.fsdecode(path))
            if not where.startswith(self._inside):
                self._seen.append(f"{event} of {where}")


def child(seed: int, folder: Path, work: list[tuple[str, int, int]]) -> None:
    from targets import TARGETS

    from piaa.errors import PiaaError

    warnings.simplefilter("ignore")
    watch = Watch(folder)
    for name, start, stop in work:
        target = TARGETS[name](_fresh(folder / "seeds"))
        for sound in target.seeds:
            if not target.accepts(sound, _fresh(folder / "work")):
                raise RuntimeError(f"The unharmed seed of {name} was refused: {sound[:60]!r}")
        _limit_memory()
        accepted, slowest = 0, 0.0
        for number in range(start, stop):
            (folder / "progress").write_text(f"{name} {number}")
            rng = Random(f"{seed}/{name}/{number}")
            data = target.mutated(rng)
            place = _fresh(folder / "work")
            problem = ""
            signal.alarm(HANG)
            begin = time.process_time()
            with watch as seen:
                try:
                    accepted += target.accepts(data, place)
                except PiaaError:
                    pass
                except BaseException as error:
                    problem = f"{type(error).__name__}: {error}"[:300] + _where(error)
            spent = time.process_time() - begin
            signal.alarm(0)
            slowest = max(slowest, spent)
            if spent > SECONDS:
                problem = problem or f"took {spent:.2f} s"
            if seen:
                problem = problem or f"{seen[0]}"
            if problem:
                kept = folder / "findings" / f"{name}-{seed}-{number}"
                kept.parent.mkdir(exist_ok=True)
                kept.write_bytes(data)
                _tell({"target": name, "case": number, "kind": "problem", "detail": problem})
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        _tell(
            {
                "target": name,
                "cases": stop - start,
                "accepted": accepted,
                "slowest": slowest,
                "peak_mb": peak,
            }
        )


def _where(error: BaseException) -> str:
    """The last place in piaa that the error came through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/piaa/" in file:
            found = f" at {file.rpartition('/piaa/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _fresh(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _tell(facts: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _work(words: list[str]) -> Iterator[tuple[str, int, int]]:
    for word in words:
        name, start, stop = word.split(":")
        yield name, int(start), int(stop)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))  # fake_encoder, beside the tests
    child(int(sys.argv[1]), Path(sys.argv[2]), list(_work(sys.argv[3:])))
