"""A merge tree of 1,000 shards on Ray: what the driver holds and reads, against merging all of them itself.

    python benchmarks/merge_tree.py [--shards 64 250 1000]

A shard is what 16 images add to a fit: 20 classes, 49 patches of 128 numbers, banks of 256. None knows of the
others, so that nothing is left out of its file. Each line is a process of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.nn.functional import normalize

CLASSES, DIM, PATCHES, IMAGES, BANK = 20, 128, 49, 16, 256


def make_shards(folder: Path, count: int) -> None:
    from piaa import Config
    from piaa.encoders.base import ImageFeatures
    from piaa.fitting.gathered import Gathered
    from piaa.scale.fit_state import save_gathered

    random = torch.Generator().manual_seed(0)
    text = normalize(torch.randn(CLASSES, DIM, generator=random), dim=-1)
    for number in range(count):
        patches = normalize(torch.randn(IMAGES, PATCHES, DIM, generator=random), dim=-1)
        cls = normalize(patches.mean(1), dim=-1)
        gathered = Gathered(text, Config(bank_size=BANK))
        gathered.add(ImageFeatures(cls, patches, (7, 7)))
        save_gathered(folder / f"unit-{number:06d}", gathered)


def drive(kind: str, folder: Path, count: int) -> dict[str, float | str]:
    """What the driver of a fit does once all units are done."""
    from piaa.scale.fit import merge_results
    from piaa.scale.fit_state import load_gathered
    from piaa.scale.job import Job
    from piaa.scale.local import Here
    from piaa.scale.ray_engine import RayCluster

    results = [folder / f"unit-{number:06d}" for number in range(count)]
    total, _ = load_gathered(results[0])  # what is loaded before, it has anyway
    engine = Here() if kind == "alone" else RayCluster(int)
    if kind == "tree":
        import ray  # noqa: F401
    before = _peak()
    start = time.perf_counter()
    left = engine.reduce(merge_results, Job(folder, ()), results)
    total, _ = load_gathered(left[0])
    for path in left[1:]:
        total.merge(load_gathered(path)[0])
    seconds, grown = time.perf_counter() - start, _peak() - before
    digest = hashlib.sha256()
    for tensor in total.state().values():
        digest.update(tensor.contiguous().numpy().tobytes())
    return {
        "seconds": seconds,
        "grown": grown,
        "read": sum(path.stat().st_size for path in left),
        "digest": digest.hexdigest(),
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    if sys.argv[1:2] == ["--drive"]:
        kind, folder, count = sys.argv[2:]
        print(json.dumps(drive(kind, Path(folder), int(count))))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shards", type=int, nargs="+", default=[64, 250, 1000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_shards(Path(name), max(options.shards))
        size = sum(path.stat().st_size for path in Path(name).iterdir()) / max(options.shards)
        print(f"shards of {size / 1e6:.1f} MB")
        print("shards  merged by         driver's memory grows by  driver reads  seconds")
        for count in options.shards:
            digests = set()
            for kind in ("alone", "tree"):
                command = [sys.executable, __file__, "--drive", kind, name, str(count)]
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                output = subprocess.run(
                    command, check=True, capture_output=True, env=environment
                ).stdout
                told = json.loads(output.splitlines()[-1])
                digests.add(told["digest"])
                print(
                    f"{count:6,}  {'the driver' if kind == 'alone' else 'a tree on Ray':16}  "
                    f"{told['grown'] / 2**20:20,.0f} MB  {told['read'] / 2**20:8,.1f} MB  "
                    f"{told['seconds']:7.1f}",
                    flush=True,
                )
            if len(digests) > 1:
                sys.exit("THE RESULTS DIFFER")


if __name__ == "__main__":
    main()
