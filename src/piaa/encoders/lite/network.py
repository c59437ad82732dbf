"""EfficientNet-Lite: a stored network -> plain convolutions -> a feature map.

EfficientNet (Tan & Le 2019, arXiv:1905.11946) without squeeze-and-excitation and with ReLU6, as
Google published it for small devices. Batch norms are folded into the convolutions before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.errors import CheckpointError

STRIDE = 32  # input pixels a cell of the feature map
DIM = 1280
_STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)
_BATCH_NORM_EPS = 1e-3  # as in TensorFlow, where the weights come from


@dataclass(frozen=True)
class Convolution:
    """One folded convolution with "same" padding, and what follows it.

    Attributes:
        weight: (out, in / groups, k, k) float32; bias: (out,) float32.
        center, spread: (out,) float32, mean and standard deviation of each channel before the clamp, as
            its batch norm states them.
        relu6: Whether the result is clamped to 0..6.
        skip: How many convolutions back the tensor to be added to the result entered, 0 for none.
    """

    weight: Tensor
    bias: Tensor
    center: Tensor
    spread: Tensor
    stride: int = 1
    groups: int = 1
    relu6: bool = True
    skip: int = 0

    @property
    def kernel(self) -> int:
        return self.weight.shape[-1]

    def to(self, device: torch.device) -> Convolution:
        return replace(self, weight=self.weight.to(device), bias=self.bias.to(device))


def fold_network(state: Mapping[str, Tensor], repeats: Sequence[int]) -> list[Convolution]:
    """The convolutions of a network stored in EfficientNet-PyTorch's layout.

    Args:
        state: `_conv_stem`, `_blocks.0` ..., `_conv_head`, each with its batch norm.
        repeats: Blocks in each of the seven stages.
    """
    n_blocks = len({key.split(".")[1] for key in state if key.startswith("_blocks.")})
    if n_blocks != sum(repeats):
        raise CheckpointError(
            f"The network has {n_blocks} blocks in place of {sum(repeats)}: it is another model."
        )
    layers = [_folded(state, "_conv_stem", "_bn0", stride=2)]
    block = 0
    for stage_stride, n in zip(_STAGE_STRIDES, repeats, strict=True):
        for stride in (stage_stride, *[1] * (n - 1)):
            name = f"_blocks.{block}."
            inside = []
            if f"{name}_expand_conv.weight" in state:
                inside.append(_folded(state, f"{name}_expand_conv", f"{name}_bn0"))
            inside.append(_folded(state, f"{name}_depthwise_conv", f"{name}_bn1", stride=stride))
            project = _folded(state, f"{name}_project_conv", f"{name}_bn2", relu6=False)
            keeps_shape = stride == 1 and len(project.bias) == len(layers[-1].bias)
            if keeps_shape:
                project = replace(project, skip=len(inside) + 1)
            layers += [*inside, project]
            block += 1
    layers.append(_folded(state, "_conv_head", "_bn1"))
    return layers


def _folded(
    state: Mapping[str, Tensor], conv: str, norm: str, *, stride: int = 1, relu6: bool = True
) -> Convolution:
    try:
        weight = state[f"{conv}.weight"].double()
        scale, shift, mean, variance = (
            state[f"{norm}.{part}"].double()
            for part in ("weight", "bias", "running_mean", "running_var")
        )
    except KeyError as error:
        raise CheckpointError(f"The network's weights lack {error}.") from None
    spread = scale.abs()
    scale = scale / torch.sqrt(variance + _BATCH_NORM_EPS)
    return Convolution(
        weight=(weight * scale[:, None, None, None]).float(),
        bias=(shift - mean * scale).float(),
        center=shift.float(),
        spread=spread.float(),
        stride=stride,
        groups=weight.shape[0] if conv.endswith("_depthwise_conv") else 1,
        relu6=relu6,
    )


def run_network(layers: Sequence[Convolution], pixels: Tensor) -> Tensor:
    """(B, 3, H, W) normalized pixels -> (B, 1280, ceil(H / 32), ceil(W / 32)), 0..6.

    The plain torch run, for devices other than the CPU; `onnx_graph` holds the same computation.
    """
    entered = [pixels]
    for layer in layers:
        x = F.conv2d(
            _same_padded(entered[-1], layer),
            layer.weight,
            layer.bias,
            stride=layer.stride,
            groups=layer.groups,
        )
        if layer.relu6:
            x = x.clamp_(0, 6)
        if layer.skip:
            x = x + entered[-layer.skip]
        entered.append(x)
    return entered[-1]


def _same_padded(x: Tensor, layer: Convolution) -> Tensor:
    """TensorFlow's "same": ceil(side / stride) results, the odd pixel of padding at the end."""
    if layer.kernel == 1:
        return x
    pads: list[int] = []
    for side in (x.shape[3], x.shape[2]):
        total = max((-(-side // layer.stride) - 1) * layer.stride + layer.kernel - side, 0)
        pads += [total // 2, total - total // 2]
    return F.pad(x, pads)
