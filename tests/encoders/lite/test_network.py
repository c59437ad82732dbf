"""Folding, torch and onnxruntime against the network as published, batch norms and all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import pytest
import torch
import torch.nn.functional as F
from lite_samples import TINY_REPEATS, tiny_state
from torch import Tensor

from piaa.encoders.lite.network import fold_network, run_network
from piaa.encoders.lite.onnx_graph import CpuNetwork, float_model
from piaa.encoders.lite.sources import LITE_ENCODERS
from piaa.encoders.package_index import PackageSource, PackageWeights
from piaa.errors import CheckpointError


def plain_forward(state: Mapping[str, Tensor], repeats: Sequence[int], x: Tensor) -> Tensor:
    """EfficientNet-Lite written down step by step in double precision, nothing folded."""
    s = {key: value.double() for key, value in state.items()}

    def conv(x: Tensor, name: str, stride: int = 1, *, depthwise: bool = False) -> Tensor:
        weight = s[f"{name}.weight"]
        kernel = weight.shape[-1]
        for dim, sides in ((2, "rows"), (3, "columns")):
            size = x.shape[dim]
            total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
            before, after = total // 2, total - total // 2
            pad = (0, 0, before, after) if sides == "rows" else (before, after, 0, 0)
            x = F.pad(x, pad)
        return F.conv2d(x, weight, stride=stride, groups=x.shape[1] if depthwise else 1)

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance = s[f"{name}.running_mean"], s[f"{name}.running_var"]
        return F.batch_norm(x, mean, variance, s[f"{name}.weight"], s[f"{name}.bias"], eps=1e-3)

    x = F.relu6(norm(conv(x.double(), "_conv_stem", 2), "_bn0"))
    block = 0
    for stage, n in enumerate(repeats):
        for repeat in range(n):
            name = f"_blocks.{block}."
            stride = 2 if repeat == 0 and stage in (1, 2, 3, 5) else 1
            y = x
            if block > 0:
                y = F.relu6(norm(conv(y, f"{name}_expand_conv"), f"{name}_bn0"))
            y = F.relu6(
                norm(conv(y, f"{name}_depthwise_conv", stride, depthwise=True), f"{name}_bn1")
            )
            y = norm(conv(y, f"{name}_project_conv"), f"{name}_bn2")
            x = x + y if stride == 1 and x.shape == y.shape else y
            block += 1
    return F.relu6(norm(conv(x, "_conv_head"), "_bn1")).float()


SIZES = [(64, 64), (96, 160), (75, 101), (33, 32), (32, 33), (1, 1)]


@pytest.mark.parametrize("size", SIZES)
def test_both_runs_equal_the_plain_network_at_any_size(size: tuple[int, int]) -> None:
    state = tiny_state()
    layers = fold_network(state, TINY_REPEATS)
    pixels = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    expected = plain_forward(state, TINY_REPEATS, pixels)
    assert expected.shape == (2, 1280, math.ceil(size[0] / 32), math.ceil(size[1] / 32))
    assert 0 < expected.count_nonzero() < expected.numel()  # ReLU6 at work on both sides
    torch.testing.assert_close(run_network(layers, pixels), expected, atol=1e-4, rtol=0)
    on_cpu = CpuNetwork(float_model(layers))(pixels)
    torch.testing.assert_close(on_cpu, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", LITE_ENCODERS)
def test_published_weights_equal_the_plain_network(
    name: str, real_weights: Callable[[PackageSource], PackageWeights]
) -> None:
    entry = LITE_ENCODERS[name]
    state = real_weights(entry.source).tensors
    pixels = torch.rand(1, 3, 160, 200, generator=torch.Generator().manual_seed(1)) * 2 - 1
    expected = plain_forward(state, entry.repeats, pixels)
    layers = fold_network(state, entry.repeats)
    torch.testing.assert_close(run_network(layers, pixels), expected, atol=1e-4, rtol=0)
    on_cpu = CpuNetwork(float_model(layers))(pixels)
    torch.testing.assert_close(on_cpu, expected, atol=1e-4, rtol=0)


def test_another_model_is_refused() -> None:
    with pytest.raises(CheckpointError, match="10 blocks in place of 16"):
        fold_network(tiny_state(), LITE_ENCODERS["lite-fast"].repeats)


def test_a_lacking_tensor_is_named() -> None:
    state = tiny_state()
    del state["_blocks.3._bn1.running_var"]
    with pytest.raises(CheckpointError, match=r"_blocks\.3\._bn1\.running_var"):
        fold_network(state, TINY_REPEATS)
