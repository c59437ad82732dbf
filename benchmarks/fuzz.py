"""Damaged and hostile files through every loader; the counts of docs/threat-model.md.

    python benchmarks/fuzz.py                    all of it
    python benchmarks/fuzz.py images tar-sources --scale 0.1 --seed 7

Exits with 1 if anything was found. The offending inputs are then kept in the folder it names.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "trust"))

from fuzzing import fuzz

CASES = {
    "images": 10_000,
    "checkpoint-files": 1_500,
    "encoders": 500,
    "weight-indexes": 500,
    "artifacts": 2_000,
    "forged-artifacts": 1_000,
    "fit-states": 500,
    "feature-shards": 500,
    "class-lists": 1_000,
    "voc-annotations": 500,
    "voc-lists": 300,
    "coco-instances": 500,
    "label-lists": 500,
    "label-tables": 500,
    "label-lines": 500,
    "configs": 500,
    "settings-files": 500,
    "job-manifests": 300,
    "unit-results": 300,
    "tar-sources": 1_000,
    "parquet-sources": 1_000,
    "request-forms": 1_000,
    "request-bodies": 1_000,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of cases")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="piaa-fuzz-"))
    found = 0
    print(
        f"{'target':18} {'cases':>6} {'accepted':>8} {'slowest':>8} {'peak':>8} found", flush=True
    )
    for name in asked.targets:
        count = max(1, round(CASES[name] * asked.scale))
        tally = fuzz({name: count}, folder, seed=asked.seed)[name]
        found += len(tally.findings)
        print(
            f"{name:18} {tally.cases:6} {tally.accepted:8} {tally.slowest:6.2f} s {tally.peak_mb:5} MB "
            f"{len(tally.findings):5}",
            flush=True,
        )
        kinds = Counter(f"{one['kind']}: {one['detail'][:160]}" for one in tally.findings)
        first = {
            f"{one['kind']}: {one['detail'][:160]}": one["case"] for one in reversed(tally.findings)
        }
        for kind, times in kinds.most_common():
            print(f"    {times} x (first: case {first[kind]}) {kind}", flush=True)
    if found:
        print(f"The inputs are in {folder / 'findings'}.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
