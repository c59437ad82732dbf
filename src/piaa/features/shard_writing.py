"""Shards of features, written as the features come; see `piaa.features.shards` for what is in them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from piaa.atomic import whole_file
from piaa.features.shards import KEY_BYTES, StoredFeatures
from piaa.tensor_writing import header_bytes, header_entry, tensor_bytes

_HEADER_BYTES: Final = 1024
"""Room for it: what it says is known when all images have come."""


def write_shard(path: Path, stored: StoredFeatures, keys: Tensor | None = None) -> None:
    """Write a shard, whole or not at all. `keys` are (N, 16) uint8."""
    writer = ShardWriter(path)
    writer.append(stored, keys)
    writer.close()


class ShardWriter:
    """A shard that gets its name when it is closed, and is whole then.

    What goes wrong in `append` is raised by `close`. Without `close`, nothing is left.
    """

    def __init__(self, path: Path) -> None:
        self._opened = ExitStack()
        temporary = self._opened.enter_context(whole_file(path))
        self._file = self._opened.enter_context(temporary.open("xb"))
        self._file.write(bytes(_HEADER_BYTES))
        self._columns: dict[str, list[Tensor]] = {}
        self._patches_shape, self._patches_dtype = [0, 0, 0], torch.float16
        self._error: Exception | None = None

    def append(self, stored: StoredFeatures, keys: Tensor | None = None) -> None:
        """Add N images of one encoder. `keys` are (N, 16) uint8."""
        try:
            self._append(stored, keys)
        except Exception as error:
            self._error = self._error or error

    def _append(self, stored: StoredFeatures, keys: Tensor | None) -> None:
        if keys is None:
            keys = torch.zeros(len(stored), KEY_BYTES, dtype=torch.uint8)
        columns = {"key": keys, "crc": stored.checksums(keys), **vars(stored)}
        patches = columns.pop("patches")
        for name, column in columns.items():
            self._columns.setdefault(name, []).append(column)
        self._patches_shape = [self._patches_shape[0] + len(stored), *patches.shape[1:]]
        self._patches_dtype = patches.dtype
        self._file.write(tensor_bytes(patches))

    def close(self) -> None:
        """Write the rest."""
        with self._opened:
            if self._error is not None:
                raise self._error
            rest = {name: torch.cat(parts) for name, parts in self._columns.items()}
            rest["grid"] = self._columns["grid"][0]
            entries = {"patches": header_entry(self._patches_dtype, self._patches_shape, 0)}
            end: int = entries["patches"]["data_offsets"][1]
            if padding := -end % 8:  # else numbers would begin where no number of their width may
                rest["padding"] = torch.zeros(padding, dtype=torch.uint8)
            for name in sorted(rest, key=lambda name: (name != "padding", -rest[name].itemsize)):
                entries[name] = header_entry(rest[name].dtype, rest[name].shape, end)
                end += self._file.write(tensor_bytes(rest[name]))
            self._file.seek(0)
            self._file.write(header_bytes(entries, length=_HEADER_BYTES))
