"""The embedded network in 8 bits against the same in float."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lite_samples import TINY_REPEATS, tiny_state
from torch import Tensor

from piaa.encoders.lite.encoder import LiteEncoder
from piaa.encoders.lite.int8_graph import _mean_of_clamped, int8_model
from piaa.encoders.lite.loading import load_lite
from piaa.encoders.lite.network import fold_network, run_network
from piaa.encoders.lite.onnx_graph import CpuNetwork
from piaa.encoders.lite.sources import LITE_ENCODERS
from piaa.encoders.package_index import PackageSource, PackageWeights
from piaa.encoders.sessions import SAFE_WEIGHT_LEVELS, WEIGHT_LEVELS, weight_levels
from piaa.errors import InputError, UnknownNameError


def photograph_like(batch: int, side: int) -> Tensor:
    """Smooth regions, (B, 3, side, side) in the levels of 8-bit pixels."""
    coarse = torch.rand(batch, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    smooth = F.interpolate(coarse, size=(side, side), mode="bicubic").clamp(0, 1)
    return ((smooth * 255).round() - 127) / 128


def test_expectation_of_a_clamped_normal() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, variance = torch.tensor([-2.0, 0.0, 1.0, 5.5, 9.0]), torch.tensor([1.0, 4.0, 0.1, 2, 1])
    drawn = mean + variance.sqrt() * torch.randn(200_000, 5, generator=generator)
    torch.testing.assert_close(
        _mean_of_clamped(mean, variance), drawn.clamp(0, 6).mean(0), rtol=0, atol=0.02
    )


def test_real_network_keeps_its_direction(
    real_weights: Callable[[PackageSource], PackageWeights],
) -> None:
    entry = LITE_ENCODERS["lite-fast"]
    layers = fold_network(real_weights(entry.source).tensors, entry.repeats)
    pixels = photograph_like(3, 160)
    wanted = run_network(layers, pixels)
    got = CpuNetwork(int8_model(layers, weight_levels=weight_levels()))(pixels)
    assert got.shape == wanted.shape
    pooled = F.cosine_similarity(got.mean((2, 3)), wanted.mean((2, 3)))
    assert pooled.min() > (0.985 if weight_levels() == WEIGHT_LEVELS else 0.97)
    # The rest of a picture's batch does not matter.
    alone = CpuNetwork(int8_model(layers, weight_levels=weight_levels()))(pixels[1:2])
    torch.testing.assert_close(alone, got[1:2], rtol=0, atol=1e-5)


@pytest.mark.parametrize("levels", [WEIGHT_LEVELS, SAFE_WEIGHT_LEVELS])
def test_any_size_and_constant_channels(levels: int) -> None:
    state = tiny_state()
    state["_blocks.1._expand_conv.weight"][0] = 0  # a channel that is its bias only
    layers = fold_network(state, TINY_REPEATS)
    network = CpuNetwork(int8_model(layers, weight_levels=levels))
    for shape in ((1, 3, 75, 101), (2, 3, 32, 64)):
        pixels = torch.randn(*shape, generator=torch.Generator().manual_seed(1)).clamp(-1, 1)
        got, wanted = network(pixels), run_network(layers, pixels)
        assert got.shape == wanted.shape
        assert torch.isfinite(got).all()
        assert got.min() >= 0
        assert got.max() <= 6


def test_the_encoder_says_so(make_tiny: Callable[..., LiteEncoder]) -> None:
    exact, rough = make_tiny(), make_tiny(precision="int8")
    assert rough.spec.precision == "int8"
    assert exact.spec.differences(rough.spec.to_dict()).startswith("precision")


def test_wrong_precisions() -> None:
    with pytest.raises(UnknownNameError, match="bfloat16"):
        load_lite("lite", precision="bfloat16")
    with pytest.raises(InputError, match="int8' is for CPUs; on cuda"):
        load_lite("lite", precision="int8", device="cuda")
