"""A shard of a cache in the making: a thread writes what has come while more is encoded."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from pathlib import Path

import torch

from piaa.features.shard_writing import ShardWriter
from piaa.features.shards import KEY_BYTES, Row, StoredFeatures


class NewShard:
    """Features on their way to the disk.

    Attributes:
        path: that the shard will have.
        rows: what it holds so far, by key.
        bytes: how much that is.
    """

    def __init__(self, folder: Path, thread: Executor) -> None:
        """Raises an OSError if the folder cannot be written to.

        Args:
            thread: does one thing after the other.
        """
        self.path = folder / f"{secrets.token_hex(8)}.safetensors"
        self.rows: dict[bytes, Row] = {}
        self.bytes = 0
        self._keys: list[bytes] = []
        self._writer, self._thread = ShardWriter(self.path), thread
        self._closing: Future[None] | None = None

    def add(self, keys: Sequence[bytes], stored: StoredFeatures) -> None:
        """Have features written."""
        rows = torch.frombuffer(bytearray(b"".join(keys)), dtype=torch.uint8)
        self._thread.submit(self._writer.append, stored, rows.reshape(-1, KEY_BYTES))
        self.rows |= {key: (stored, row) for row, key in enumerate(keys)}
        self._keys += keys
        self.bytes += stored.bytes

    def close(self) -> None:
        """Have it completed."""
        self._closing = self._thread.submit(self._writer.close)

    def wait(self) -> dict[bytes, tuple[Path, int]]:
        """After `close`: where each key's features are on disk. Raises what went wrong on the way there."""
        if self._closing is not None:
            self._closing.result()
        return {key: (self.path, row) for row, key in enumerate(self._keys)}
