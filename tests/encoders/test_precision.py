"""Which numbers and runtimes go with which device."""

from __future__ import annotations

import pytest
import torch

from piaa.encoders.precision import PRECISIONS, check_precision
from piaa.errors import InputError


def test_what_goes() -> None:
    for precision in ("float32", "int8"):
        for runtime in ("torch", "onnx"):
            check_precision(precision, runtime, torch.device("cpu"))
    for precision in ("float32", "bfloat16", "float16"):
        check_precision(precision, "torch", torch.device("cuda"))


@pytest.mark.parametrize(
    ("precision", "runtime", "device", "message"),
    [
        ("bfloat16", "torch", "cpu", "needs a GPU"),
        ("int8", "torch", "cuda", "is for CPUs; on cuda"),
        ("float32", "onnx", "cuda", "runtime='onnx' is for CPUs"),
        ("int4", "torch", "cpu", "Unknown precision 'int4'"),
        (["int8"], "torch", "cpu", "Unknown precision"),
        ("float32", "tvm", "cpu", "Unknown runtime 'tvm'"),
    ],
)
def test_what_does_not(precision: object, runtime: str, device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_precision(precision, runtime, torch.device(device))


def test_every_precision_computes_in_a_type() -> None:
    assert all(dtype.is_floating_point for dtype in PRECISIONS.values())
