"""In which numbers, and by which runtime, an encoder computes on which device."""

from __future__ import annotations

from typing import Final, Literal

import torch

from piaa.errors import InputError, UnknownNameError

Precision = Literal["float32", "bfloat16", "float16", "int8"]
RUNTIMES: Final = ("torch", "onnx")
# Of what is not in 8 bits.
PRECISIONS: Final = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.float32,
}


def check_precision(precision: object, runtime: object, device: torch.device) -> None:
    """Refuse what a device cannot do, or does worse than float32."""
    if not isinstance(precision, str) or precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    if runtime not in RUNTIMES:
        raise UnknownNameError("runtime", runtime, RUNTIMES)
    on_cpu = device.type == "cpu"
    if precision in ("bfloat16", "float16") and on_cpu:
        # Not only slow: where a CPU's flags promise more than its hypervisor allows, bfloat16
        # products end the process with an illegal instruction.
        raise InputError(
            f"precision={precision!r} needs a GPU; on a CPU use precision='float32' or 'int8'."
        )
    if precision == "int8" and not on_cpu:
        raise InputError(
            f"precision='int8' is for CPUs; on {device} use 'bfloat16', 'float16' or 'float32'."
        )
    if runtime == "onnx" and not on_cpu:
        raise InputError(f"runtime='onnx' is for CPUs; on {device} use runtime='torch'.")
