"""Encoded features on disk, so that other classes can be learnt without encoding again.

A folder of shards (`piaa.features.shards`), each written whole or not at all, and a file that tells which
encoder made them. It holds one collection, in order; `piaa.scale.cache` holds single pictures of any.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from piaa.atomic import write_whole
from piaa.encoders.base import EncoderSpec, ImageFeatures
from piaa.errors import InputError
from piaa.features.shard_writing import write_shard
from piaa.features.shards import DamagedShardError, Shard, StoredFeatures

SPEC_FILE = "encoder.json"


class FeatureStore:
    """Iterates over the `ImageFeatures` it holds, shard by shard, as often as wanted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def create(folder: str | os.PathLike[str], spec: EncoderSpec) -> FeatureStore:
        """A new, empty store; a folder that holds anything is refused."""
        path = Path(folder)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{path} exists already. Give a new or empty folder for the features.")
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / SPEC_FILE, json.dumps(spec.to_dict(), indent=2).encode())
        return FeatureStore(path)

    @staticmethod
    def open(folder: str | os.PathLike[str], spec: EncoderSpec) -> FeatureStore:
        """An existing store, which must hold features of that encoder."""
        path = Path(folder)
        try:
            saved = json.loads((path / SPEC_FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path} holds no kept features: {error}.") from error
        if not isinstance(saved, dict):
            raise InputError(f"{path} holds no kept features: {SPEC_FILE} describes no encoder.")
        if seen := spec.differences(saved):
            raise InputError(f"The features in {path} are another encoder's. {seen}.")
        return FeatureStore(path)

    def add(self, features: ImageFeatures) -> None:
        """Append a shard."""
        # After the last one, whatever is missing before: a shard is never written over.
        number = max((int(path.stem) for path in self._shards()), default=-1) + 1
        write_shard(self.folder / f"{number:08d}.safetensors", StoredFeatures.of(features))

    def __iter__(self) -> Iterator[ImageFeatures]:
        for path in self._shards():
            try:
                features = Shard(path).read().features()
            except (DamagedShardError, InputError) as error:
                raise InputError(
                    f"{path} holds no whole features: {error}. Encode the images again into a new folder."
                ) from error
            yield features

    def _shards(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]" * 8 + ".safetensors"))
