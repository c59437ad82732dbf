"""A job on disk: what is to be done, and the results of the units that are done.

    manifest.json       options, and a digest of the inputs
    inputs.jsonl        [unit, name, fingerprint] of each part of the input
    recognizer          as it was when the job began; all who work on it load this one
    unit-000000.*       results, each written whole or not at all
    merged-0-000000     several results in one
    lock                held while a process works on the job

A job is picked up where it was left by whoever asks for the same inputs and options; anything else is
refused with what differs. One that ends with an error before any unit is done leaves nothing behind.
The manifest is written last and removed first: without it there is no job.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from piaa.atomic import remove_leftovers, whole_file, write_whole
from piaa.errors import InputError
from piaa.recognizer import Recognizer
from piaa.scale.units import Unit

FORMAT: Final = "piaa-job"
VERSION: Final = 2  # 1 ordered banks by the lead over the mean alone
MANIFEST, INPUTS, LOCK = "manifest.json", "inputs.jsonl", "lock"
RECOGNIZER, MODEL = "recognizer", "model"


class DamagedUnitWarning(UserWarning):
    """A unit's result that is not what was written; it is done again."""


@dataclass(frozen=True)
class Job:
    """Units and where their results go."""

    folder: Path
    units: tuple[Unit, ...]

    @property
    def recognizer(self) -> Path:
        return self.folder / RECOGNIZER

    @property
    def model(self) -> Path:
        """What a fit comes to, on its way to where it is wanted."""
        return self.folder / MODEL

    def result(self, unit: Unit) -> Path:
        return self.folder / f"unit-{unit.number:06d}"

    def part_of_tree(self, level: int, number: int) -> Path:
        """What some results come to; of no use to another run, for it has the results themselves."""
        return self.folder / f"merged-{level}-{number:06d}"

    def remove(self) -> None:
        """Forget the job."""
        (self.folder / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(self.folder)


@contextmanager
def open_job(
    folder: Path,
    units: Sequence[Unit],
    options: Mapping[str, Any],
    recognizer: Recognizer,
    *,
    restart: bool = False,
) -> Iterator[Job]:
    """Begin a job, or go on with the one in the folder if it is the same.

    Args:
        recognizer: is kept as it is when a job begins. Text vectors may differ in the last bit from one
            process to another (by their number of threads), and banks of different ones do not merge.
        options: all that a result depends on besides the pictures, as JSON values.
        restart: forget the job in the folder, whatever it is.

    Raises:
        InputError: the folder holds another job (the message says what differs) or something else,
            or another process works on it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if restart:
            (folder / MANIFEST).unlink(missing_ok=True)
        job = Job(folder, tuple(units))
        # As a file gives them back, for tuples come back as lists.
        wanted = json.loads(json.dumps(dict(options)))
        if (folder / MANIFEST).exists():
            _check_same(folder, units, wanted)
        else:
            _begin(job, wanted, recognizer)
        remove_leftovers(folder)
        try:
            yield job
        except BaseException:
            if has_job(folder) and not count_done(folder):
                job.remove()  # there is nothing to go on with, and nothing should be in the way
            raise


def has_job(folder: Path) -> bool:
    """Whether there is a job in a folder, begun and not finished."""
    return (folder / MANIFEST).is_file()


def count_done(folder: Path) -> int:
    """Units of the job in a folder that have a result."""
    return sum(1 for _ in folder.glob("unit-*"))


def discard(result: Path, error: Exception) -> None:
    """Remove a damaged result, and say so."""
    warnings.warn(f"{result} is done again: {error}", DamagedUnitWarning, stacklevel=2)
    result.unlink()


def _begin(job: Job, options: Mapping[str, Any], recognizer: Recognizer) -> None:
    ours = tuple(
        f"{dot}{name}"
        for name in ("unit-", "merged-", INPUTS, RECOGNIZER, MODEL, MANIFEST)
        for dot in ("", ".")
    )
    for path in job.folder.iterdir():
        if path.name == LOCK:
            continue
        if not path.name.startswith(ours):
            raise InputError(
                f"The folder {str(job.folder)!r} holds {path.name!r}, which is no part of a job."
            )
        path.unlink()
    recognizer.save(job.recognizer)
    digest = hashlib.sha256()
    with whole_file(job.folder / INPUTS) as temporary, temporary.open("xb") as file:
        for line in _lines(job.units):
            digest.update(line)
            file.write(line)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "options": options,
        "units": len(job.units),
        "inputs_sha256": digest.hexdigest(),
    }
    write_whole(job.folder / MANIFEST, json.dumps(manifest, indent=1).encode())


def _lines(units: Sequence[Unit]) -> Iterator[bytes]:
    for unit in units:
        for part in unit.parts:
            yield json.dumps([unit.number, part.name, part.fingerprint()]).encode() + b"\n"


def _check_same(folder: Path, units: Sequence[Unit], options: Mapping[str, Any]) -> None:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        known = manifest["format"] == FORMAT and manifest["version"] == VERSION
        if not isinstance(manifest["options"], dict):
            raise TypeError("its options are no object")
        before: dict[str, Any] = manifest["options"]
        digest = str(manifest["inputs_sha256"])
        inputs = (folder / INPUTS).read_bytes()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _another(folder, f"its {MANIFEST} cannot be read ({error!r})") from error
    if not known or hashlib.sha256(inputs).hexdigest() != digest:
        raise _another(folder, "it is damaged, or of another version of piaa")
    if changed := [
        _change(key, before, options)
        for key in sorted({*before, *options})
        if before.get(key) != options.get(key)
    ]:
        raise _another(folder, "; ".join(changed))
    now = b"".join(_lines(units))
    if now != inputs:
        raise _another(folder, _input_changes(inputs.splitlines(), now.splitlines()))


def _change(key: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What changed of an option, down to the first value that differs."""
    old, new = before.get(key), now.get(key)
    if isinstance(old, dict) and isinstance(new, dict):
        names = (name for name in sorted({*old, *new}) if old.get(name) != new.get(name))
        if (inner := next(names, None)) is not None:  # None: a null that is not there any more
            return f"{key} {_change(inner, old, new)}"
    return f"{key} was {_short(old)} and is now {_short(new)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _input_changes(before: Sequence[bytes], now: Sequence[bytes]) -> str:
    old, new = ({name: mark for _, name, mark in map(json.loads, lines)} for lines in (before, now))
    kinds = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    told = [f"{len(names):,} {kind} (first: {names[0]})" for kind, names in kinds.items() if names]
    if told:
        return f"of the input, {', '.join(told)}"
    first = next(
        json.loads(b or a)[1] for a, b in zip_longest(before, now, fillvalue=b"") if a != b
    )
    return f"from {first} on, the input is in another order or cut into other units (--unit-size)"


def _another(folder: Path, difference: str) -> InputError:
    return InputError(
        f"{str(folder)!r} holds the work of another run: {difference}. Run that command again to finish it, "
        "or give --restart (restart=True) to forget it and begin anew."
    )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the job; the system lets go of it when the process ends, however it does."""
    try:
        import fcntl
    except ImportError:  # Windows: two runs of one command are the user's to avoid
        yield
        return
    with (folder / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"Another process works on {str(folder)!r}. Wait for it, or end it first."
            ) from error
        yield
