"""A chain of convolutions as an ONNX model, and onnxruntime to run it on a CPU.

onnxruntime runs these depthwise convolutions two to three times as fast as torch does. The model
needs three operators, so it is written here field by field (protocol buffers, onnx.proto): that
spares the `onnx` package, which nothing else needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from piaa.encoders.lite.network import DIM, Convolution

_OPSET, _IR_VERSION = 13, 7
_FLOAT = 1
_INT_ATTRIBUTE, _STRING_ATTRIBUTE, _INTS_ATTRIBUTE = 2, 3, 7


class CpuNetwork:
    """The network as an onnxruntime session; calling it is thread-safe."""

    def __init__(self, layers: Sequence[Convolution], *, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # Threads that wait by spinning take the cores from those that decode the next pictures.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            onnx_model(layers), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) float32 -> (B, 1280, ceil(H / 32), ceil(W / 32)) float32."""
        (features,) = self._session.run(None, {"pixels": pixels.contiguous().numpy()})
        return torch.from_numpy(features)


def onnx_model(layers: Sequence[Convolution]) -> bytes:
    """The serialized model: `pixels` (batch, 3, rows, columns) -> `features`."""
    nodes = b""
    constants = _constant("zero", np.float32(0)) + _constant("six", np.float32(6))
    entered = ["pixels"]
    for index, layer in enumerate(layers):
        constants += _constant(f"weight{index}", layer.weight.numpy())
        constants += _constant(f"bias{index}", layer.bias.numpy())
        steps = [("Conv", [entered[-1], f"weight{index}", f"bias{index}"], _conv_settings(layer))]
        if layer.relu6:
            steps.append(("Clip", [f"{index}.0", "zero", "six"], b""))
        if layer.skip:
            steps.append(("Add", [f"{index}.{len(steps) - 1}", entered[-layer.skip]], b""))
        last = index == len(layers) - 1
        for step, (operator, inputs, settings) in enumerate(steps):
            output = "features" if last and step == len(steps) - 1 else f"{index}.{step}"
            nodes += _field(1, _node(operator, inputs, output, settings))
        entered.append(output)
    graph = (
        nodes
        + _field(2, b"efficientnet-lite")
        + constants
        + _field(11, _value("pixels", ("batch", 3, "rows", "columns")))
        + _field(12, _value("features", ("batch", DIM, "grid_rows", "grid_columns")))
    )
    opset = _field(2, _OPSET)
    return _field(1, _IR_VERSION) + _field(7, graph) + _field(8, opset)


def _conv_settings(layer: Convolution) -> bytes:
    return b"".join(
        _field(5, _field(1, name.encode()) + value)
        for name, value in (
            ("auto_pad", _field(4, b"SAME_UPPER") + _field(20, _STRING_ATTRIBUTE)),
            ("group", _field(3, layer.groups) + _field(20, _INT_ATTRIBUTE)),
            ("kernel_shape", _pair(layer.kernel)),
            ("strides", _pair(layer.stride)),
        )
    )


def _pair(number: int) -> bytes:
    return _field(8, number) * 2 + _field(20, _INTS_ATTRIBUTE)


def _node(operator: str, inputs: list[str], output: str, settings: bytes) -> bytes:
    names = b"".join(_field(1, name.encode()) for name in inputs)
    return names + _field(2, output.encode()) + _field(4, operator.encode()) + settings


def _constant(name: str, values: np.ndarray | np.float32) -> bytes:
    array = np.ascontiguousarray(values, dtype="<f4")
    shape = b"".join(_field(1, side) for side in np.shape(values))
    head = shape + _field(2, _FLOAT) + _field(8, name.encode())
    return _field(5, head + _field(9, array.tobytes()))


def _value(name: str, shape: tuple[str | int, ...]) -> bytes:
    sides = b"".join(
        _field(1, _field(1, side) if isinstance(side, int) else _field(2, side.encode()))
        for side in shape
    )
    tensor = _field(1, _FLOAT) + _field(2, sides)
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
