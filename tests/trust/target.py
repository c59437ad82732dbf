"""What a fuzz target is: sound files, how to damage them, and what must hold of any that is accepted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mutations import mutate, mutate_tree

Accepts = Callable[[bytes, Path], bool]


@dataclass(frozen=True)
class Target:
    """Sound files, and `accepts(data, folder)`: True, or an error; wrong content is an AssertionError."""

    seeds: Sequence[bytes]
    accepts: Accepts
    change: Callable[[bytes, Random], bytes] | None = None

    def mutated(self, rng: Random) -> bytes:
        data = rng.choice(self.seeds)
        if self.change is not None:
            return self.change(data, rng)
        return mutate(data, rng, self.seeds)


def tree_or_bytes(seeds: Sequence[bytes]) -> Callable[[bytes, Random], bytes]:
    def change(data: bytes, rng: Random) -> bytes:
        if rng.random() < 0.5:
            return mutate(data, rng, seeds)
        lines = data.splitlines()
        place = rng.randrange(len(lines))
        lines[place] = json.dumps(mutate_tree(json.loads(lines[place]), rng)).encode()
        return b"\n".join(lines)

    return change
