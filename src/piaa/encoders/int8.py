"""A transformer's trunk in 8-bit numbers, for CPUs.

Weights have a scale for each output channel, activations one for each token, measured as it comes: the few
tokens of huge norm that CLIP grows take no levels from the others, and a picture's features do not depend
on its batch. Channels that stand out are evened: a LayerNorm before a product is divided, and the
product's weights are multiplied, by the square root of the ratio of both (SmoothQuant, Xiao et al.,
2023, arXiv:2211.10438). How large a channel gets is read from the norm's own gain and shift, so no
pictures are needed.

The last block and the projection, which decide the ranking, stay in float.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from piaa.encoders import onnx_writer
from piaa.encoders.eva import EvaBlock, SwiGlu
from piaa.encoders.sessions import Sessions, weight_levels
from piaa.encoders.vit import Block, Mlp, VisionTower

PRODUCT = "MatMulIntegerToFloat"  # of onnxruntime
# Rows within -1..1 as unsigned levels: value = STEP * (level - ZERO).
STEP, ZERO = 1 / 127, 128

# A normalized value seldom lies further out than this many standard deviations.
_NORMAL_REACH = 4.0
# SmoothQuant's exponent: how much of a channel's size goes over to the weights.
_SHARE = 0.5


class Int8Linear(nn.Module):
    """`x @ weight.T + bias` with both factors in 8 bits, by onnxruntime.

    weight: (out, in) float32; bias: (out,) float32.
    """

    levels: Tensor
    steps: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        largest = weight.abs().amax(1)
        steps = (largest / weight_levels()).where(largest > 0, 1.0)
        levels = (weight / steps[:, None]).round().to(torch.int8)
        self.register_buffer("levels", levels.T.contiguous())
        self.register_buffer("steps", steps)
        self.register_buffer("bias", bias)
        self._sessions = Sessions(self._model)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) float32 -> (..., out) float32."""
        rows = x.reshape(-1, x.shape[-1])
        largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
        largest = largest.clamp_min(1e-30)
        product = self._multiply(rows * largest.reciprocal())
        torch.addcmul(self.bias, product, largest, out=product)
        return product.view(*x.shape[:-1], -1)

    def _multiply(self, rows: Tensor) -> Tensor:
        """Rows (n, in) within -1..1 -> (n, out)."""
        if torch.compiler.is_exporting():
            return self._recorded(rows)
        product = torch.empty(len(rows), len(self.bias))
        session = self._sessions.here()
        binding = session.io_binding()
        binding.bind_input("x", "cpu", 0, np.float32, rows.shape, rows.data_ptr())
        binding.bind_output("y", "cpu", 0, np.float32, product.shape, product.data_ptr())
        session.run_with_iobinding(binding)
        return product

    def _recorded(self, rows: Tensor) -> Tensor:
        """The same operators, for a graph that is being exported."""
        symbolic = torch.onnx.ops.symbolic
        step, zero = torch.tensor(STEP), torch.tensor(ZERO, dtype=torch.uint8)
        quantized = symbolic(
            "QuantizeLinear", (rows, step, zero), dtype=torch.uint8, shape=rows.shape
        )
        return symbolic(
            f"{onnx_writer.CONTRIBUTED}::{PRODUCT}",
            (quantized, self.levels, step, self.steps, zero),
            dtype=torch.float32,
            shape=(rows.shape[0], self.bias.shape[0]),
            version=1,
        )

    def _model(self) -> bytes:
        inner, outer = self.levels.shape
        constants = {
            "levels": self.levels.numpy(),
            "step": np.array(STEP, np.float32),
            "steps": self.steps.numpy(),
            "zero": np.array(ZERO, np.uint8),
        }
        return onnx_writer.model(
            "int8",
            [
                onnx_writer.node("QuantizeLinear", ["x", "step", "zero"], "quantized"),
                onnx_writer.node(
                    PRODUCT, ["quantized", *constants], "y", domain=onnx_writer.CONTRIBUTED
                ),
            ],
            constants,
            inputs={"x": ("rows", inner)},
            outputs={"y": ("rows", outer)},
        )


@torch.no_grad()
def quantize_trunk(tower: VisionTower) -> None:
    """Put the linear layers of all blocks but the last into 8 bits, in place."""
    for block in tower.blocks[:-1]:
        if not isinstance(block, Block):
            raise TypeError(f"cannot quantize a {type(block).__name__}")
        even_channels(block.norm1, block.qkv)
        block.qkv = _int8(block.qkv)
        if isinstance(block, EvaBlock):
            even_channels(block.inner_norm, block.out)
        block.out = _int8(block.out)
        mlp = block.mlp
        if isinstance(mlp, SwiGlu):
            even_channels(block.norm2, mlp.gate_and_value)
            even_channels(mlp.norm, mlp.fc2)
            mlp.gate_and_value = _int8(mlp.gate_and_value)
        elif isinstance(mlp, Mlp):
            even_channels(block.norm2, mlp.fc1)
            mlp.fc1 = _int8(mlp.fc1)
        else:
            raise TypeError(f"cannot quantize a {type(mlp).__name__}")
        mlp.fc2 = _int8(mlp.fc2)


def even_channels(norm: nn.LayerNorm, linear: nn.Linear) -> None:
    """Even out the channels between a norm and the product behind it; their product stays the same."""
    activation = _NORMAL_REACH * norm.weight.abs() + norm.bias.abs()
    weight = linear.weight.abs().amax(0)
    factor = activation**_SHARE / weight ** (1 - _SHARE)
    factor = factor.where((activation > 0) & (weight > 0), 1.0)
    norm.weight.div_(factor)
    norm.bias.div_(factor)
    linear.weight.mul_(factor)


def _int8(linear: nn.Linear) -> nn.Linear:
    quantized: Any = Int8Linear(linear.weight, linear.bias)
    module: nn.Linear = quantized  # stands in its place
    return module
