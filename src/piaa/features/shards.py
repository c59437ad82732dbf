"""Features of images in a file: compact, read row by row from a memory map, every row checked.

A shard is a safetensors file of N images (`piaa.features.shard_writing` writes it):

    cls         (N, D) float32          as it was, so that an image keeps its id
    patches     (N, M, D) float16, or int8 with the largest number of each vector at 127: they are of
                unit length, so that their directions are all there is to keep
    placements  (N, W, 8) float64       original and canvas size, box; W is 0 for features without pictures
    grid        (3,) int64              rows, columns, windows
    key         (N, 16) uint8           what an image is known by; zeros where nobody asks
    crc         (N,) int64              CRC-32 of all the above of each row
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import torch
from torch import Tensor

from piaa.encoders.base import ImageFeatures
from piaa.errors import UnknownNameError
from piaa.images import Placement
from piaa.tensor_writing import tensor_bytes

Storage = Literal["float16", "int8"]
STORAGES: Final = ("float16", "int8")
KEY_BYTES: Final = 16


class DamagedShardError(Exception):
    """A file that is no whole shard, or whose rows are not what was written."""


@dataclass(frozen=True)
class StoredFeatures:
    """Features of N images as shards hold them; see the module for shapes."""

    cls: Tensor
    patches: Tensor
    placements: Tensor
    grid: Tensor

    @staticmethod
    def of(features: ImageFeatures, storage: Storage = "float16") -> StoredFeatures:
        if storage not in STORAGES:
            raise UnknownNameError("storage", storage, STORAGES)
        patches = features.patches.detach().cpu()
        if storage == "int8":
            largest = patches.abs().amax(dim=-1, keepdim=True)
            patches = (patches * (127 / largest)).round().to(torch.int8)
        rows, columns = features.grid
        numbers = [[*p.original_size, *p.canvas_size, *p.box] for p in features.placements]
        placements = torch.tensor(numbers, dtype=torch.float64)
        return StoredFeatures(
            cls=features.cls.detach().cpu().float().contiguous(),
            patches=(patches.half() if storage == "float16" else patches).contiguous(),
            placements=placements.reshape(len(features), len(numbers) // max(1, len(features)), 8),
            grid=torch.tensor([rows, columns, features.windows]),
        )

    def __len__(self) -> int:
        return len(self.cls)

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in vars(self).values())

    def __getitem__(self, rows: slice) -> StoredFeatures:
        parts = {name: value[rows] for name, value in vars(self).items() if name != "grid"}
        return replace(self, **parts)

    @staticmethod
    def concatenate(parts: Sequence[StoredFeatures]) -> StoredFeatures:
        if len(parts) == 1:
            return parts[0]
        first = vars(parts[0])
        joined = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name in first
            if name != "grid"
        }
        return replace(parts[0], **joined)

    @staticmethod
    def join(rows: Sequence[Row]) -> StoredFeatures:
        """Some rows in order; copied only if they are not, as they stand, all that something holds."""
        runs: list[tuple[StoredFeatures, int, int]] = []
        for stored, row in rows:
            if runs and runs[-1][0] is stored and runs[-1][2] == row:
                runs[-1] = (stored, runs[-1][1], row + 1)
            else:
                runs.append((stored, row, row + 1))
        return StoredFeatures.concatenate([stored[start:stop] for stored, start, stop in runs])

    def features(self) -> ImageFeatures:
        """Float32 of unit length again."""
        rows, columns, windows = self.grid.tolist()
        # In place: to normalize a new tensor takes longer than to make it.
        patches = self.patches.float()
        patches /= torch.linalg.vector_norm(patches, dim=-1, keepdim=True).clamp_min_(1e-12)
        placements = tuple(
            Placement((int(p[0]), int(p[1])), (int(p[2]), int(p[3])), (p[4], p[5], p[6], p[7]))
            for image in self.placements.tolist()
            for p in image
        )
        return ImageFeatures(self.cls, patches, (rows, columns), placements, windows)

    def checksums(self, keys: Tensor) -> Tensor:
        """CRC-32 of each row, (N,) int64."""
        sums = [zlib.crc32(tensor_bytes(self.grid))] * len(self)
        for column in (keys, self.cls, self.patches, self.placements):
            data = tensor_bytes(column)
            width = len(data) // max(1, len(self))
            for row, value in enumerate(sums):
                sums[row] = zlib.crc32(data[row * width : (row + 1) * width], value)
        return torch.tensor(sums, dtype=torch.int64)


Row: TypeAlias = tuple[StoredFeatures, int]
"""One image: what holds it, and its place there."""


class Shard:
    """An open shard. Its rows are read from the file when asked for, and checked."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        self.path = path
        try:
            file = cast(Any, safe_open)(path, framework="pt", device="cpu")
            self.keys: Tensor = file.get_tensor("key").clone()
            self._crc: Tensor = file.get_tensor("crc").clone()
            self._grid: Tensor = file.get_tensor("grid").clone()
            self._columns: dict[str, Any] = {
                name: file.get_slice(name) for name in ("cls", "patches", "placements")
            }
            lengths = {len(self._crc), *(c.get_shape()[0] for c in self._columns.values())}
            whole = self.keys.shape == (len(self._crc), KEY_BYTES) and len(lengths) == 1
        except (SafetensorError, OSError, KeyError, ValueError, IndexError) as error:
            raise DamagedShardError(str(error)) from error
        if not whole:
            raise DamagedShardError("its columns have different lengths")

    def __len__(self) -> int:
        return len(self._crc)

    def read(self, start: int = 0, stop: int | None = None) -> StoredFeatures:
        """Rows from `start` to `stop` (default: the end).

        Raises:
            DamagedShardError: a row is not what was written.
        """
        rows = slice(start, len(self) if stop is None else stop)
        columns = {name: column[rows] for name, column in self._columns.items()}
        stored = StoredFeatures(grid=self._grid, **columns)
        wrong = (stored.checksums(self.keys[rows]) != self._crc[rows]).nonzero().flatten()
        if len(wrong):
            first = start + int(wrong[0])
            raise DamagedShardError(f"row {first} does not match its checksum")
        return stored
