"""Time until `piaa --help` has printed, against that of `import torch`.

    python benchmarks/startup.py [--rounds 7]

Each is a fresh process with warm file caches, taking turns. What may be imported is a matter of
tests/test_package.py; this shows what that gives.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import partial
from statistics import median

from machine import describe, in_turns

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import piaa": ["-c", "import piaa"],
    "piaa --help": ["-m", "piaa", "--help"],
    "import torch": ["-c", "import torch"],
}


def seconds(rounds: int) -> dict[str, list[float]]:
    run = partial(subprocess.run, check=True, stdout=subprocess.DEVNULL)
    commands = [partial(run, [sys.executable, *words]) for words in COMMANDS.values()]
    return dict(zip(COMMANDS, in_turns(*commands, rounds=rounds), strict=True))


def gain(spent: dict[str, list[float]]) -> float:
    """Median over the rounds: how many times as fast `piaa --help` is as `import torch`."""
    pairs = zip(spent["import torch"], spent["piaa --help"], strict=True)
    return median(torch / shown for torch, shown in pairs)


def ratios() -> dict[str, float]:
    return {"start: `piaa --help` against `import torch`": gain(seconds(5))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    spent = seconds(parser.parse_args().rounds)
    print(describe())
    for name, times in spent.items():
        print(f"{name:16}{1e3 * median(times):8.0f} ms")
    share = 1 / gain(spent)
    print(f"piaa --help takes {share:.2f} times as long as import torch (below 0.3 is wanted)")
    if share >= 0.3:
        sys.exit(1)


if __name__ == "__main__":
    main()
