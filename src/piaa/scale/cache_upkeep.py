"""Looking after feature caches: how large they are, whether they are sound, what may go."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from piaa.errors import InputError
from piaa.features.shards import DamagedShardError, Shard
from piaa.scale.cache import SPEC_FILE

# A shard in the making is written in seconds; what is older was left by a process that was killed.
_LEFTOVER_SECONDS = 3600.0


@dataclass(frozen=True)
class CacheInfo:
    """One encoder's cache.

    Attributes:
        encoder: what made the features, as `EncoderSpec.to_dict` gives it, and their storage.
        images: in all shards that can be opened; a picture in two of them counts twice.
        used: when features were last read or written, seconds since 1970.
    """

    folder: Path
    encoder: dict[str, Any]
    shards: int
    images: int
    bytes: int
    used: float

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "folder": str(self.folder)}


def describe_caches(folder: Path) -> list[CacheInfo]:
    """The caches of all encoders in a folder that hold anything."""
    found = (_describe(path.parent) for path in sorted(folder.glob(f"*/{SPEC_FILE}")))
    return [info for info in found if info.shards]


def verify_caches(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """(shard, images, what is wrong) of every shard; "" if nothing is. Reads all bytes."""
    for path in _shards(folder):
        images = 0
        try:
            shard = Shard(path)
            images = len(shard)
            for row in range(images):
                shard.read(row, row + 1)
        except DamagedShardError as error:
            yield path, images, str(error)
        else:
            yield path, images, ""


def prune_caches(
    folder: Path, *, most_bytes: int | None = None, unused_days: float | None = None
) -> list[Path]:
    """Remove shards and say which: those not used for so many days, then those not used for longest
    until at most `most_bytes` are left. Processes that are reading one keep it until they end."""
    if most_bytes is None and unused_days is None:
        raise InputError("Say what to keep: a number of bytes, or of days without use.")
    now = time.time()
    for path in folder.glob("*/.*.part"):
        if now - path.stat().st_mtime > _LEFTOVER_SECONDS:
            path.unlink(missing_ok=True)
    shards = sorted((path.stat().st_mtime, path.stat().st_size, path) for path in _shards(folder))
    left = sum(size for _, size, _ in shards)
    removed = []
    for used, size, path in shards:
        old = unused_days is not None and now - used > unused_days * 86_400
        if old or (most_bytes is not None and left > most_bytes):
            path.unlink(missing_ok=True)
            removed.append(path)
            left -= size
    return removed


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.safetensors"))


def _describe(folder: Path) -> CacheInfo:
    try:
        encoder = dict(json.loads((folder / SPEC_FILE).read_bytes()))
    except (OSError, ValueError, TypeError):
        encoder = {"name": folder.name}  # it only tells people; the folder's name is what counts
    images, size, used = 0, 0, 0.0
    shards = sorted(folder.glob("*.safetensors"))
    for path in shards:
        status = path.stat()
        size, used = size + status.st_size, max(used, status.st_mtime)
        try:
            images += len(Shard(path))
        except DamagedShardError:
            continue  # `piaa cache verify` tells of it
    return CacheInfo(folder, encoder, len(shards), images, size, used)
