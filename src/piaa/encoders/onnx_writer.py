"""ONNX models written field by field (protocol buffers, onnx.proto).

The networks that always run in onnxruntime need a handful of operators. Writing those takes less than
the `onnx` package, which nothing else in the core needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

OPSET, IR_VERSION = 17, 8
CONTRIBUTED = "com.microsoft"  # onnxruntime's own operators
FLOAT = 1
_TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_INT_ATTRIBUTE, _STRING_ATTRIBUTE, _INTS_ATTRIBUTE = 2, 3, 7

Attribute = int | str | tuple[int, ...]


def model(
    name: str,
    nodes: Sequence[bytes],
    constants: Mapping[str, NDArray[np.generic]],
    *,
    inputs: Mapping[str, tuple[str | int, ...]],
    outputs: Mapping[str, tuple[str | int, ...]],
) -> bytes:
    """A serialized model; inputs and outputs are float32, a text for a side that varies."""
    graph = (
        b"".join(_field(1, each) for each in nodes)
        + _field(2, name.encode())
        + b"".join(_field(5, _tensor(key, value)) for key, value in constants.items())
        + b"".join(_field(11, _value(key, shape)) for key, shape in inputs.items())
        + b"".join(_field(12, _value(key, shape)) for key, shape in outputs.items())
    )
    opsets = _field(8, _field(2, OPSET)) + _field(8, _field(1, CONTRIBUTED.encode()) + _field(2, 1))
    return _field(1, IR_VERSION) + _field(7, graph) + opsets


def node(
    operator: str,
    inputs: Sequence[str],
    output: str,
    attributes: Mapping[str, Attribute] | None = None,
    *,
    domain: str = "",
) -> bytes:
    """One step of a graph, for `model`."""
    return (
        b"".join(_field(1, name.encode()) for name in inputs)
        + _field(2, output.encode())
        + _field(4, operator.encode())
        + b"".join(_field(5, _attribute(key, value)) for key, value in (attributes or {}).items())
        + (_field(7, domain.encode()) if domain else b"")
    )


def _attribute(name: str, value: Attribute) -> bytes:
    head = _field(1, name.encode())
    if isinstance(value, str):
        return head + _field(4, value.encode()) + _field(20, _STRING_ATTRIBUTE)
    if isinstance(value, int):
        return head + _field(3, value) + _field(20, _INT_ATTRIBUTE)
    return head + b"".join(_field(8, each) for each in value) + _field(20, _INTS_ATTRIBUTE)


def _tensor(name: str, values: NDArray[np.generic]) -> bytes:
    shape = b"".join(_field(1, side) for side in values.shape)
    kind = _field(2, _TYPES[str(values.dtype)])
    little_endian = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return shape + kind + _field(8, name.encode()) + _field(9, little_endian.tobytes())


def _value(name: str, shape: tuple[str | int, ...]) -> bytes:
    sides = b"".join(
        _field(1, _field(1, side) if isinstance(side, int) else _field(2, side.encode()))
        for side in shape
    )
    tensor = _field(1, FLOAT) + _field(2, sides)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a message: a whole number, or bytes (a text or a message) with their length."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    low = bytearray()
    while number > 0x7F:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*low, number])
