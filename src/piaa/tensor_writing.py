"""Tensors to a safetensors file: straight from memory, and equal tensors to equal bytes.

The safetensors package copies all tensors into one block of memory first, and writes metadata in random
order. The format itself is simple: the length of a JSON header, the header, and the numbers one after the
other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from piaa.atomic import write_whole

_DTYPES: Final = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.float16: "F16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(
    target: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a safetensors file, whole or not at all; raises an OSError if it cannot be written."""
    # Widest first, so that every tensor begins at a multiple of its numbers' width.
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    content: list[bytes | memoryview] = []
    start = 0
    for name in order:
        data = tensor_bytes(tensors[name])
        header[name] = header_entry(tensors[name].dtype, tensors[name].shape, start)
        start += len(data)
        content.append(data)
    write_whole(target, header_bytes(header), *content)


def header_entry(dtype: torch.dtype, shape: Sequence[int], start: int) -> dict[str, Any]:
    """What a header says of a tensor whose numbers begin at a byte after it."""
    end = start + math.prod(shape) * dtype.itemsize
    return {"dtype": _DTYPES[dtype], "shape": list(shape), "data_offsets": [start, end]}


def header_bytes(entries: Mapping[str, Any], *, length: int = 0) -> bytes:
    """A file's beginning, of at least that many bytes and a multiple of eight."""
    text = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
    text = text.ljust(length - 8)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The numbers of a tensor as bytes, row-major; not copied if they lie so in main memory."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
