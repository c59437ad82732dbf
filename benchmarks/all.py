"""One table of ratios from all benchmarks, each measured side by side in this run.

    python benchmarks/all.py [--only NAME ...] [--json FILE] [--check]

Every ratio says how many times as fast or as cheap piaa is; higher is better. --json writes the
run (benchmarks/baseline.json is such a file). --check exits with an error if a ratio is more than
15 % below the baseline, or missing; a benchmark with such a row gets a second chance first. To add
a row, add an entry to the `ratios()` of a benchmark; to add a benchmark, its name below.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path

import torch

from comparison import better_of, compare, table

from machine import cpu_name, describe

BENCHMARKS = ("startup", "encoding", "lite", "resize", "pvcl", "curves", "shortlist")
BASELINE = Path(__file__).with_name("baseline.json")


def measure(name: str) -> dict[str, float]:
    start = time.perf_counter()
    ratios: dict[str, float] = import_module(name).ratios()
    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return ratios


def flat(parts: dict[str, dict[str, float]]) -> dict[str, float]:
    return {row: value for part in parts.values() for row, value in part.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    parser.add_argument("--json", type=Path, help="write the ratios to this file")
    parser.add_argument("--check", action="store_true", help="fail if a ratio fell")
    options = parser.parse_args()
    saved = json.loads(BASELINE.read_text())
    baseline = flat({name: saved["ratios"].get(name, {}) for name in options.only})

    parts = {name: measure(name) for name in options.only}
    if options.check:
        fell = set(compare(baseline, flat(parts)).fell)
        for name in [name for name, part in parts.items() if fell & part.keys()]:
            parts[name] = better_of(parts[name], measure(name))
    now = flat(parts)
    print(describe(), end="\n\n")
    print("\n".join(table(now, baseline)))
    if cpu_name() not in saved["machine"]:
        print(f"\nThe baseline is of another machine: {saved['machine']}")
    if options.json:
        rounded = {n: {row: round(v, 3) for row, v in part.items()} for n, part in parts.items()}
        text = json.dumps({"machine": describe(), "ratios": rounded}, indent=2)
        options.json.write_text(text + "\n")
    if options.check:
        outcome = compare(baseline, now)
        for row in outcome.fell:
            print(f"fell: {row}, from {baseline[row]:.2f} to {now[row]:.2f}")
        for row in outcome.gone:
            print(f"not measured: {row}, {baseline[row]:.2f} in the baseline")
        sys.exit(0 if outcome.holds else 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
