"""onnxruntime as piaa uses it on CPUs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import torch

from piaa.encoders import onnx_writer

if TYPE_CHECKING:
    from pathlib import Path

    from onnxruntime import InferenceSession

# CPUs without VNNI add two products of 8 bits in 16, which weights of 8 bits overflow and those of 7 do not.
WEIGHT_LEVELS, SAFE_WEIGHT_LEVELS = 127, 63


def open_session(model: bytes | Path, *, threads: int) -> InferenceSession:
    """A session on the CPU; running it is thread-safe."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Threads that wait by spinning take the cores from those that decode the next pictures.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


class Sessions:
    """A model that runs with as many threads as torch has in the calling thread.

    Args:
        model: gives the model, or the path of its file, whenever a session is opened.
    """

    def __init__(self, model: Callable[[], bytes | Path]) -> None:
        self._model = model
        self._open: dict[int, InferenceSession] = {}
        self._lock = Lock()

    def here(self) -> InferenceSession:
        """The session for the calling thread; it is opened when first asked for."""
        threads = torch.get_num_threads()
        with self._lock:
            if threads not in self._open:
                self._open[threads] = open_session(self._model(), threads=threads)
            return self._open[threads]


@cache
def weight_levels() -> int:
    """How far 8-bit weights may reach on this CPU: 127, or 63 where larger ones would overflow.

    It is tried, since what a CPU says of itself is not always what a virtual machine lets it do.
    """
    inner, side = 64, 32
    model = onnx_writer.model(
        "overflow",
        [
            onnx_writer.node("QuantizeLinear", ["x", "step", "zero"], "levels"),
            onnx_writer.node("MatMulInteger", ["levels", "weight", "zero", "weight_zero"], "sums"),
            onnx_writer.node("Cast", ["sums"], "y", {"to": onnx_writer.FLOAT}),
        ],
        {
            "step": np.array(1, np.float32),
            "zero": np.array(0, np.uint8),
            "weight": np.full((inner, side), WEIGHT_LEVELS, np.int8),
            "weight_zero": np.array(0, np.int8),
        },
        inputs={"x": ("rows", inner)},
        outputs={"y": ("rows", side)},
    )
    largest = np.full((side, inner), 255, np.float32)
    (sums,) = open_session(model, threads=1).run(None, {"x": largest})
    exact = bool((np.asarray(sums) == 255 * WEIGHT_LEVELS * inner).all())
    return WEIGHT_LEVELS if exact else SAFE_WEIGHT_LEVELS
