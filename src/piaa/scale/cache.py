"""Features of pictures by what the pictures are, so that none is encoded twice.

    features/<encoder>-<digest>/encoder.json
    features/<encoder>-<digest>/*.safetensors     shards, see `piaa.features.shards`

A picture is known by a hash of its bytes, wherever it lies and whatever it is called. The digest of a folder
covers all that makes features what they are: weights, front-end and its options, preprocessing, tiles,
precision, and how they are stored. Each process writes shards of its own, whole or not at all, and never
changes one: any number may read and write at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections import ChainMap, OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from PIL import Image
from torch import Tensor

from piaa.atomic import write_whole
from piaa.encoders.base import EncoderSpec, ImageFeatures
from piaa.encoders.package_index import cache_folder
from piaa.errors import PiaaError
from piaa.features.shards import (
    KEY_BYTES,
    DamagedShardError,
    Row,
    Shard,
    Storage,
    StoredFeatures,
)
from piaa.scale.new_shard import NewShard

SPEC_FILE: Final = "encoder.json"
LAYOUT: Final = 1
"""Of shards; part of the digest, so that another one is another folder."""
SHARD_BYTES: Final = 64 * 2**20
OPEN_SHARDS: Final = 64


class CacheWarning(UserWarning):
    """A damaged shard; its pictures are encoded again."""


def default_cache() -> Path:
    """The folder `features` in piaa's cache (PIAA_CACHE)."""
    return cache_folder() / "features"


class FeatureCache:
    """The features of one encoder.

    Args:
        folder: of the caches of all encoders.
        storage: "float16", or "int8" for half of that: cosines of patches change by about 1e-4.
    """

    def __init__(
        self,
        spec: EncoderSpec,
        folder: str | os.PathLike[str] | None = None,
        *,
        storage: Storage = "float16",
    ) -> None:
        self.storage = storage
        self.folder = Path(folder or default_cache()) / _folder_name(spec, storage)
        self._places: dict[bytes, tuple[Path, int]] = {}
        self._listed: set[Path] = set()
        self._used: set[Path] = set()
        self._open: OrderedDict[Path, Shard] = OrderedDict()
        self._filling: NewShard | None = None
        self._closing: NewShard | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="piaa-features")
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / SPEC_FILE).exists():
                told = {**spec.to_dict(), "storage": storage}
                write_whole(self.folder / SPEC_FILE, json.dumps(told, indent=1).encode())
        self.refresh()

    def __len__(self) -> int:
        """Pictures in it, as far as it has looked."""
        return len(self._places.keys() | self._new().keys())

    def __contains__(self, key: bytes) -> bool:
        """Whether a picture's features are in it, as far as it has looked."""
        return key in self._new() or key in self._places

    def refresh(self) -> None:
        """Look for shards that others have written."""
        for path in sorted(set(self.folder.glob("*.safetensors")) - self._listed):
            self._list(path)

    def get(self, key: bytes) -> Row | None:
        """One picture's features; None if they are not here (any more), or damaged."""
        if (row := self._new().get(key)) is not None:
            return row
        while key in self._places:
            path, place = self._places[key]
            try:
                self._use(path)
                return self._shard(path).read(place, place + 1), 0
            except DamagedShardError as error:
                self._drop(path, error)
        return None

    def add(self, keys: Sequence[bytes], features: ImageFeatures) -> StoredFeatures:
        """Keep features under their keys; gives them as they will be found.

        A thread writes them meanwhile; they are sure to be on disk after `flush`.
        """
        stored = StoredFeatures.of(features, self.storage)
        self._keep(keys, stored)
        return stored

    def flush(self) -> None:
        """Have everything that was added on disk."""
        self._complete()
        self._settle()

    def _new(self) -> ChainMap[bytes, Row]:
        """What is not known to be on disk yet."""
        return ChainMap(*(shard.rows for shard in (self._filling, self._closing) if shard))

    def _keep(self, keys: Sequence[bytes], stored: StoredFeatures) -> None:
        if self._filling is None:
            with self._writing():
                self._filling = NewShard(self.folder, self._thread)
        self._filling.add(keys, stored)
        if self._filling.bytes >= SHARD_BYTES:
            self._complete()

    def _complete(self) -> None:
        """Have the new shard completed; so that there is only one such, wait for the one before."""
        self._settle()
        if self._filling is not None:
            self._filling.close()
            self._closing, self._filling = self._filling, None

    def _settle(self) -> None:
        """Wait for the shard that is being completed. What cannot be written is told here, and forgotten."""
        shard, self._closing = self._closing, None
        if shard is not None:
            with self._writing():
                self._places |= shard.wait()
            self._listed.add(shard.path)

    def _list(self, path: Path) -> None:
        try:
            keys = self._shard(path).keys
        except DamagedShardError as error:
            self._drop(path, error)
            return
        self._listed.add(path)
        for row, key in enumerate(_as_bytes(keys)):
            self._places.setdefault(key, (path, row))

    def _shard(self, path: Path) -> Shard:
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        shard = self._open[path] = Shard(path)
        if len(self._open) > OPEN_SHARDS:
            self._open.popitem(last=False)
        return shard

    def _use(self, path: Path) -> None:
        """Mark a shard as used, once: `prune` removes what was not for longest."""
        if path not in self._used:
            self._used.add(path)
            with suppress(OSError):  # not ours to mark, or gone
                os.utime(path)

    def _drop(self, path: Path, error: DamagedShardError) -> None:
        """Let go of a shard that cannot be read; if it is damaged, its sound rows go to a new one."""
        self._open.pop(path, None)
        self._places = {key: place for key, place in self._places.items() if place[0] != path}
        if not path.exists():  # pruned by another process
            return
        sound = list(_sound_rows(path))
        for key, stored in sound:
            self._keep([key], stored)
        self.flush()
        path.unlink(missing_ok=True)
        warnings.warn(
            f"{path} is damaged ({error}) and was removed. {len(sound):,} of its pictures are sound and "
            "kept, the others are encoded again.",
            CacheWarning,
            stacklevel=4,
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise PiaaError(
                f"The feature cache {self.folder} cannot be written ({error.strerror or error}). Make room "
                "with piaa cache prune, give another folder, or go without a cache."
            ) from error


def picture_key(data: bytes) -> bytes:
    """What a picture is known by: a hash of its file's bytes."""
    return hashlib.blake2b(data, digest_size=KEY_BYTES).digest()


def pixels_key(image: Image.Image) -> bytes:
    """The same for a picture without a file, of its RGB pixels."""
    digest = hashlib.blake2b(f"RGB {image.size}".encode(), digest_size=KEY_BYTES, person=b"pixels")
    digest.update(image.tobytes())
    return digest.digest()


def _folder_name(spec: EncoderSpec, storage: Storage) -> str:
    told = {**spec.to_dict(), "storage": storage, "layout": LAYOUT}
    del told["name"]  # of a file, perhaps, and the weights' hash is there
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', spec.name)[:40]}-{digest[:16]}"


def _sound_rows(path: Path) -> Iterator[tuple[bytes, StoredFeatures]]:
    """Key and features of each row of a damaged shard that is what was written."""
    with suppress(DamagedShardError):
        shard = Shard(path)
        for row, key in enumerate(_as_bytes(shard.keys)):
            with suppress(DamagedShardError):
                yield key, shard.read(row, row + 1)


def _as_bytes(keys: Tensor) -> Iterator[bytes]:
    flat = keys.numpy().tobytes()
    return (flat[start : start + KEY_BYTES] for start in range(0, len(flat), KEY_BYTES))
