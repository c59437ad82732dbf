"""Runs jobs in child processes, kills them for real, runs them again, and compares bytes.

    python kill_runs.py FOLDER SEED [TRIALS]

Jobs are fits and predictions, with and without kept features. A trial kills one with SIGKILL: before or
after one of its calls to the operating system that change files, within a batch, or at a random time; every
other trial kills the second run too. Children are forked, so that torch is imported once. Prints what
happened as JSON.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from shaky_encoder import ShakyEncoder, save_pictures, shaky_recognizer

from piaa.scale.cache import FeatureCache
from piaa.scale.cached_encoder import CachedEncoder
from piaa.scale.fit import fit_units, unfinished
from piaa.scale.predict import predict_units
from piaa.scale.sources import find_parts
from piaa.scale.units import cut
from piaa.scale.watching import Tally

N_IMAGES, UNIT_SIZE, BATCH_SIZE = 22, 6, 2
CALLS = ("fsync", "replace", "unlink", "mkdir", "rmdir")


def job(folder: Path, kind: str, cached: bool) -> None:
    """What a user runs."""
    recognizer = shaky_recognizer()
    if cached:
        encoder = recognizer.encoder
        recognizer.encoder = CachedEncoder(encoder, FeatureCache(encoder.spec, folder / "cache"))
    units = cut(find_parts([folder / "photos"]), UNIT_SIZE)
    watch, out = Tally(N_IMAGES, len(units)), folder / "out"
    if kind == "fit":
        fit_units(recognizer, units, out, watch=watch, batch_size=BATCH_SIZE)
        return
    with predict_units(
        recognizer, units, unfinished(out), watch=watch, batch_size=BATCH_SIZE
    ) as predictions:
        lines = [f"{p.source} {p.size} {p.tags}\n" for p in predictions]
        out.write_text("".join(lines))


def count_points(point: Callable[[], None]) -> None:
    """Call `point` around every call that changes files, and in every batch."""

    def around(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            point()
            result = real(*args, **options)
            point()
            return result

        return call

    for name in CALLS:
        setattr(os, name, around(getattr(os, name)))
    ShakyEncoder.encode_pixels = around(ShakyEncoder.encode_pixels)  # type: ignore[method-assign]


def in_child(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def killed_job(folder: Path, kind: str, cached: bool, at: int | float) -> bool:
    """Run the job and kill it at a point (int) or after some seconds (float); whether it was."""

    def work() -> None:
        left = at

        def point() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        if isinstance(at, int):
            count_points(point)
        job(folder, kind, cached)

    child = in_child(work)
    if isinstance(at, float):
        time.sleep(at)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def whole_run(folder: Path, kind: str, cached: bool) -> bytes:
    child = in_child(lambda: job(folder, kind, cached))
    assert os.waitpid(child, 0)[1] == 0
    return (folder / "out").read_bytes()


def clear(folder: Path) -> None:
    (folder / "out").unlink(missing_ok=True)
    shutil.rmtree(folder / "cache", ignore_errors=True)
    shutil.rmtree(folder / "out.unfinished", ignore_errors=True)


def try_out(
    folder: Path, kind: str, cached: bool, trials: int, rng: random.Random
) -> dict[str, Any]:
    """Kill and finish a job so many times; what happened."""
    save_pictures(folder / "photos", N_IMAGES)
    (folder / "photos" / "bad.png").write_bytes(b"no picture")
    # A copy in a later unit: whether it is found in the cache must not depend on when a run was killed.
    shutil.copy(folder / "photos" / "001.png", folder / "photos" / "016.png")
    start = time.monotonic()
    points = number_of_points(folder, kind, cached)
    seconds = time.monotonic() - start
    expected = (folder / "out").read_bytes()
    kills, resumed, wrong = 0, 0, []
    for trial in range(trials):
        clear(folder)
        # Spread over all points, and some at any time.
        step = points / trials
        at: int | float = 1 + int(trial * step + rng.random() * step)
        if trial % 4 == 3:
            at = rng.random() * seconds
        kills += killed_job(folder, kind, cached, at)
        resumed += any((folder / "out.unfinished").glob("unit-*"))
        if trial % 2:
            kills += killed_job(folder, kind, cached, rng.randint(1, max(1, points // 2)))
        found = whole_run(folder, kind, cached)
        left = sorted(
            p.name for p in folder.iterdir() if p.name not in ("cache", "photos", "points")
        )
        if found != expected or left != ["out"]:
            wrong.append([trial, at, found == expected, left])
    return {"points": points, "kills": kills, "resumed": resumed, "wrong": wrong}


def number_of_points(folder: Path, kind: str, cached: bool) -> int:
    def work() -> None:
        points = 0

        def point() -> None:
            nonlocal points
            points += 1

        count_points(point)
        job(folder, kind, cached)
        (folder / "points").write_text(str(points))

    assert os.waitpid(in_child(work), 0)[1] == 0
    return int((folder / "points").read_text())


def main(folder: Path, seed: int, trials: int = 5) -> None:
    torch.set_num_threads(1)
    rng = random.Random(seed)
    told = {
        f"{kind}{' with features kept' if cached else ''}": try_out(
            folder / f"{kind}-{cached}", kind, cached, trials, rng
        )
        for kind in ("fit", "predict")
        for cached in (False, True)
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
