"""Jobs in units against a plain loop: one and two processes, kept features, Ray; throughput and memory.

    python benchmarks/scale.py [--images 20000] [--size 320] [--rounds 1] [--only plain units ...]

Learns 20 classes from JPEGs of 160 x 120 pixels that it makes, with the embedded encoder `lite-fast`, one
thread in each process. With --size 96 the encoder looks at 96 x 96 pixels, not at its usual 320 x 320: that
takes a tenth of the time (all ways at 320 take hours), and everything around it weighs ten times as much.
Every run is a process of its own; its seconds are those of learning, from the first file to the saved model,
without imports and loading weights; with Ray and two processes they include those of the workers. Memory
is the most that the process and all it started held at a time, shared pages counted once. What is compared
was measured in one run of this script; the best round counts. The plain loop, units and kept features, whose
difference is smaller than the machine's moods, take turns of less than a second: two wait while one works.
"""

from __future__ import annotations

import argparse
import atexit
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

KINDS = {
    "plain": "a plain loop: Recognizer.fit",
    "units": "local engine, 1 process",
    "kept": "the same, features kept",
    "found": "the same, features found",
    "two": "local engine, 2 processes",
    "ray": "Ray, 1 actor",
}
IN_TURNS = ("plain", "units", "kept")
SECONDS_A_TURN = 0.4
CLASSES = [
    *(
        "aeroplane",
        "bicycle",
        "bird",
        "boat",
        "bottle",
        "bus",
        "car",
        "cat",
        "chair",
        "cow",
        "table",
    ),
    *("dog", "horse", "motorbike", "person", "plant", "sheep", "sofa", "train", "television"),
]


def make_pictures(folder: Path, count: int) -> None:
    """Smooth random colors, as different from each other as photographs are."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
        smooth = coarse.resize((160, 120), Image.Resampling.BICUBIC)
        smooth.save(folder / f"{number:06d}.jpg", quality=85)


def make_encoder(size: int, cache: str | None) -> object:
    import piaa
    from piaa.scale.cache import FeatureCache
    from piaa.scale.cached_encoder import CachedEncoder

    encoder = piaa.load_encoder("lite-fast", image_size=size)
    return CachedEncoder(encoder, FeatureCache(encoder.spec, cache)) if cache else encoder


def run(kind: str, photos: Path, folder: Path, size: int) -> dict[str, Any]:
    """One fit, in this process."""
    import torch

    from piaa import Recognizer
    from piaa.images import list_images
    from piaa.scale.fit import fit_units
    from piaa.scale.local import Here, Processes
    from piaa.scale.ray_engine import RayCluster
    from piaa.scale.sources import find_parts
    from piaa.scale.units import cut
    from piaa.scale.watching import Tally

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    cache = str(folder / "cache") if kind in ("kept", "found") else None
    make = partial(make_encoder, size, cache)
    recognizer = Recognizer(make(), CLASSES)
    out = folder / f"{kind}.piaa"
    print("ready", flush=True)
    sys.stdin.readline()
    start_cpu = time.process_time()
    if kind == "plain":
        recognizer.fit(list_images(photos))
        recognizer.save(out)
        images = recognizer.report.n_images
        stages = {}
    else:
        units = cut(find_parts([photos]))
        tally = Tally(None, len(units))
        engine = {"two": Processes(2, make), "ray": RayCluster(make, actors=1)}.get(kind, Here())
        fit_units(recognizer, units, out, watch=tally, engine=engine)
        images = tally.images
        stages = {name: round(stage.rate) for name, stage in tally.stages.items()}
        if kind in IN_TURNS:  # its clock goes on while it waits
            stages = {}
    return {"images": images, "cpu": time.process_time() - start_cpu, "stages": stages}


class Fit:
    """One fit in a process of its own, that can be made to wait; and the most memory that it and its
    children held."""

    def __init__(self, kind: str, photos: Path, folder: Path, size: int) -> None:
        self.kind = kind
        command = [sys.executable, __file__, "--run", kind, str(photos), str(folder), str(size)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
        # If another one fails, one that waits would wait for ever.
        atexit.register(self._process.kill)
        self._seconds, self._most, self._begun = 0.0, 0, False
        self.result: dict[str, Any] | None = None
        if self._line() != b"ready":
            sys.exit(f"{kind} failed")

    def go_on(self, seconds: float) -> None:
        """Let it work for so long, or until it is done."""
        if self._begun:
            self._process.send_signal(signal.SIGCONT)
        else:
            self._process.stdin.write(b"\n")
            self._begun = True
        start = time.perf_counter()
        while not self.result and (left := start + seconds - time.perf_counter()) > 0:
            if select.select([self._process.stdout], [], [], min(left, 1.0))[0]:
                self._seconds += time.perf_counter() - start
                line = self._line()
                if not line:
                    sys.exit(f"{self.kind} failed")
                self.result = {**json.loads(line), "seconds": self._seconds, "bytes": self._most}
                self._process.communicate()
                return
            self._most = max(self._most, sum(map(_proportional_bytes, _family(self._process.pid))))
        self._process.send_signal(signal.SIGSTOP)
        self._seconds += time.perf_counter() - start

    def _line(self) -> bytes:
        return self._process.stdout.readline().strip()


def measured(kinds: list[str], photos: Path, folder: Path, size: int) -> list[dict[str, Any]]:
    """One fit of each kind, all at a time and each in its turn."""
    fits = [Fit(kind, photos, folder, size) for kind in kinds]
    while any(fit.result is None for fit in fits):
        for fit in fits:
            if fit.result is None:
                fit.go_on(SECONDS_A_TURN if len(fits) > 1 else math.inf)
    return [fit.result for fit in fits]


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        parents.setdefault(parent, []).append(int(path.parent.name))
    family = [pid]
    for member in family:
        family += parents.get(member, [])
    return family


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        kind, photos, folder, size = sys.argv[2:]
        print(json.dumps(run(kind, Path(photos), Path(folder), int(size))))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()

    from machine import describe

    print(describe())
    print(f"{options.images:,} JPEGs of 160 x 120, lite-fast at {options.size} x {options.size}")
    with tempfile.TemporaryDirectory() as name:
        photos = Path(name) / "photos"
        make_pictures(photos, options.images)
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in options.only}
        for number in range(options.rounds):
            folder = Path(name) / f"round-{number}"
            folder.mkdir()
            alike = [kind for kind in options.only if kind in IN_TURNS]
            for kinds in [alike, *([kind] for kind in options.only if kind not in alike)]:
                for kind, result in zip(
                    kinds, measured(kinds, photos, folder, options.size), strict=True
                ):
                    found[kind].append(result)
        models = {path.name: path.read_bytes() for path in folder.glob("*.piaa")}
    best = {kind: min(runs, key=lambda run: run["seconds"]) for kind, runs in found.items()}
    base = best[options.only[0]]
    print(f"\n{'':34} images/s  ratio  CPU s  most memory  images/s by stage")
    for kind, result in best.items():
        ratio = base["seconds"] / result["seconds"]
        print(
            f"{KINDS[kind]:34} {result['images'] / result['seconds']:8.1f} {ratio:6.3f} {result['cpu']:6.1f} "
            f"{result['bytes'] / 2**20:9,.0f} MB  {result['stages'] or ''}"
        )
    for one in ("units", "kept"):
        if one in best and "plain" in best:
            wall = best[one]["seconds"] / best["plain"]["seconds"] - 1
            cpu = best[one]["cpu"] / best["plain"]["cpu"] - 1
            print(
                f"overhead of {one}: {100 * wall:+.1f} % of the time, {100 * cpu:+.1f} % of the CPU time"
            )
    same = {models.get(f"{kind}.piaa") for kind in ("plain", "units", "two", "ray")} - {None}
    print("models are the same to the byte" if len(same) == 1 else "MODELS DIFFER")


if __name__ == "__main__":
    main()
