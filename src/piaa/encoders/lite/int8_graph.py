"""The embedded network in 8-bit numbers: the products that CPUs are fastest at.

No pictures are needed for it. The batch norm behind each convolution states mean and spread of its
channels, which gives the range of each result and what the rounding of weights adds to it on average;
that is taken off its bias again (Nagel et al., 2019, arXiv:1906.04721). Weights have a scale for each
output channel. The first convolutions, whose few channels differ most in range, and the last, whose
result is the feature, stay in float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from piaa.encoders import onnx_writer
from piaa.encoders.lite.network import Convolution
from piaa.encoders.lite.onnx_graph import INPUTS, OUTPUTS, Graph

# Convolutions that stay in float: the stem and the first block, a tenth of the work.
FIRST = 3
# Standard deviations of a channel inside the range. What lies beyond is cut.
REACH = 4.0
ACTIVATION_LEVELS = 255


@dataclass(frozen=True)
class _Quantized:
    """A tensor of the graph in levels: value = step * (level - zero).

    Attributes:
        mean, variance: (channels,) of the values, before a clamp.
        expected: (channels,) mean of the values.
    """

    name: str
    step: float
    zero: int
    mean: Tensor
    variance: Tensor
    expected: Tensor

    @property
    def inputs(self) -> list[str]:
        return [self.name, f"{self.name}.step", f"{self.name}.zero"]


def int8_model(layers: Sequence[Convolution], *, weight_levels: int) -> bytes:
    """The serialized model: `pixels` (batch, 3, rows, columns) float32 -> `features` float32.

    `weight_levels` are those of `sessions.weight_levels()`.
    """
    graph = Graph()
    x = "pixels"
    for index, layer in enumerate(layers[:FIRST]):
        x = graph.convolve(x, layer, f"first{index}")
    bottleneck = layers[FIRST - 1]
    at = _declare(graph, "entry", bottleneck.center, bottleneck.spread.square(), relu6=False)
    graph.add("QuantizeLinear", [x, *at.inputs[1:]], at.name)
    entered = [at] * (
        FIRST + 1
    )  # no skip of this network reaches further back than the block's input
    for index, layer in enumerate(layers[FIRST:-1]):
        at = _convolve(graph, entered[-1], layer, f"conv{index}", weight_levels)
        if layer.skip:
            at = _add(graph, at, entered[-layer.skip], f"add{index}")
        entered.append(at)
    graph.add("DequantizeLinear", at.inputs, "last")
    graph.convolve("last", layers[-1], "features")
    return onnx_writer.model(
        "efficientnet-lite-int8", graph.nodes, graph.constants, inputs=INPUTS, outputs=OUTPUTS
    )


def _convolve(
    graph: Graph, x: _Quantized, layer: Convolution, name: str, weight_levels: int
) -> _Quantized:
    largest = layer.weight.flatten(1).abs().amax(1)
    steps = (largest / weight_levels).where(largest > 0, 1.0)
    levels = (layer.weight / steps[:, None, None, None]).round()
    rounding = (levels * steps[:, None, None, None] - layer.weight).sum((2, 3))
    shift = rounding[:, 0] * x.expected if layer.groups > 1 else rounding @ x.expected
    # A channel without weights, or with all but none, is its bias: its step must not blow that up.
    bias_levels = ((layer.bias - shift).double() / (x.step * steps.double())).round()
    most = 2**31 - 1
    graph.constants |= {
        f"{name}.weight": levels.to(torch.int8).numpy(),
        f"{name}.weight.step": steps.numpy(),
        f"{name}.weight.zero": np.zeros(len(steps), np.int8),
        f"{name}.bias": bias_levels.clamp(-most, most).to(torch.int32).numpy(),
    }
    result = _declare(graph, name, layer.center, layer.spread.square(), relu6=layer.relu6)
    weight = [f"{name}.weight", f"{name}.weight.step", f"{name}.weight.zero"]
    inputs = [*x.inputs, *weight, *result.inputs[1:], f"{name}.bias"]
    graph.add("QLinearConv", inputs, name, layer=layer)
    return result


def _add(graph: Graph, x: _Quantized, other: _Quantized, name: str) -> _Quantized:
    result = _declare(graph, name, x.mean + other.mean, x.variance + other.variance, relu6=False)
    inputs = [*x.inputs, *other.inputs, *result.inputs[1:]]
    graph.add("QLinearAdd", inputs, name, domain=onnx_writer.CONTRIBUTED)
    return result


def _declare(graph: Graph, name: str, mean: Tensor, variance: Tensor, *, relu6: bool) -> _Quantized:
    """A tensor's levels, of which one is exactly 0, from the spread of its channels."""
    reach = REACH * variance.sqrt()
    low = 0.0 if relu6 else min(float((mean - reach).min()), 0.0)
    high = max(float((mean + reach).max()), 0.0)
    if relu6:
        high = min(high, 6.0)
    step = float(np.float32((high - low) / ACTIVATION_LEVELS)) or 1.0
    zero = round(-low / step)
    graph.constants[f"{name}.step"] = np.array(step, np.float32)
    graph.constants[f"{name}.zero"] = np.array(zero, np.uint8)
    expected = _mean_of_clamped(mean, variance) if relu6 else mean
    return _Quantized(name, step, zero, mean, variance, expected)


def _mean_of_clamped(mean: Tensor, variance: Tensor) -> Tensor:
    """E[min(max(x, 0), 6)] of normal x, per channel."""
    spread = variance.sqrt().clamp_min(1e-6)
    low, high = -mean / spread, (6 - mean) / spread
    below, above = torch.special.ndtr(low), torch.special.ndtr(high)

    at_low, at_high = (torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi) for x in (low, high))
    clamped: Tensor = mean * (above - below) + spread * (at_low - at_high) + 6 * (1 - above)
    return clamped
