"""8-bit products and towers against plain arithmetic and against float."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from piaa.encoders import clip, sessions
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.int8 import Int8Linear, even_channels, quantize_trunk
from piaa.errors import InputError
from recipe import pixels


def plain_product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """What 8 bits should give: whole numbers throughout, scales in double precision."""
    row = x.abs().amax(1, keepdim=True).double()
    levels_x = torch.clamp(torch.round(x.double() / row * 127), -128, 127)
    column = weight.abs().amax(1, keepdim=True).double() / sessions.weight_levels()
    levels_w = torch.round(weight.double() / column)
    return (levels_x @ levels_w.T) * row / 127 * column.T + bias.double()


@pytest.fixture
def layer() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(*shape, generator=generator) for shape in ((40, 96), (64, 96), (64,))
    )
    return x, weight, bias


def test_equals_whole_number_arithmetic(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias = layer
    got = Int8Linear(weight, bias)(x)
    wanted = plain_product(x, weight, bias)
    # A value between two levels may fall either way; all others agree to float's last bits.
    apart = (got.double() - wanted).abs() / wanted.abs().mean()
    assert (apart < 1e-5).double().mean() > 0.99
    assert apart.max() < 0.01
    assert F.cosine_similarity(got, F.linear(x, weight, bias)).min() > 0.999


def test_rows_do_not_see_each_other(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias = layer
    linear = Int8Linear(weight, bias)
    huge = x.clone()
    huge[7] *= 1e4
    others = torch.arange(len(x)) != 7
    assert torch.equal(linear(x)[others], linear(huge)[others])
    assert torch.equal(linear(x[3:4]), linear(x)[3:4])
    assert torch.equal(linear(x.view(4, 10, -1)).view(40, -1), linear(x))


def test_zeros_give_the_bias(layer: tuple[Tensor, Tensor, Tensor]) -> None:
    _, weight, bias = layer
    dead = weight.clone()
    dead[5] = 0
    linear = Int8Linear(dead, bias)
    assert torch.equal(linear(torch.zeros(2, 96)), bias.expand(2, -1))
    assert torch.equal(linear(torch.ones(1, 96))[:, 5], bias[5:6])


def test_evening_changes_nothing_but_the_rounding() -> None:
    generator = torch.Generator().manual_seed(1)
    norm, linear = nn.LayerNorm(64), nn.Linear(64, 48)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(64, generator=generator) + 0.5)
        norm.weight[::16] *= 100  # channels that stand out, as CLIP's do
        linear.weight.copy_(torch.randn(48, 64, generator=generator))
        linear.weight[:, ::16] /= 100
        linear.weight[:, 3] = 0
        x = torch.randn(200, 64, generator=generator)
        before = linear(norm(x))
        rough = Int8Linear(linear.weight, linear.bias)(norm(x))
        even_channels(norm, linear)
        torch.testing.assert_close(linear(norm(x)), before, rtol=1e-4, atol=1e-4)
        fine = Int8Linear(linear.weight, linear.bias)(norm(x))
    error = [float((y - before).norm() / before.norm()) for y in (rough, fine)]
    assert error[1] < error[0] / 10
    assert error[1] < 0.02


@pytest.mark.parametrize("family", ["clip", "eva"])
@pytest.mark.parametrize("frontend", ["sc-clip", "naclip"])
def test_towers_keep_their_direction(
    load: Callable[..., ClipEncoder], family: str, frontend: str
) -> None:
    exact = load(family, frontend=frontend)
    rough = load(family, frontend=frontend, precision="int8")
    assert rough.spec.precision == "int8"
    assert exact.spec.differences(rough.spec.to_dict()).startswith("precision")
    batch = pixels(0, 2)
    wanted, got = exact.encode_pixels(batch), rough.encode_pixels(batch)
    assert (wanted.cls * got.cls).sum(-1).min() > 0.995
    assert (wanted.patches * got.patches).sum(-1).min() > 0.995
    assert not torch.equal(wanted.patches, got.patches)
    alone = rough.encode_pixels(batch[1:])
    assert (alone.patches * got.patches[1:]).sum(-1).min() > 0.9999


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_features_are_the_same_on_any_number_of_cores(
    load: Callable[..., ClipEncoder], precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clip, "LEAST_CELLS_A_CORE", 0)
    encoder = load("clip", frontend="sc-clip", precision=precision)
    batch = pixels(0, 7)  # four parts, the last one smaller
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(encoder.encode_pixels(batch))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert torch.equal(found[0].cls, other.cls)
        assert torch.equal(found[0].patches, other.patches)


def test_the_last_block_stays_in_float(load: Callable[..., ClipEncoder]) -> None:
    tower = copy.deepcopy(load("clip", frontend="clip").vision)
    quantize_trunk(tower)
    kinds = [type(block.qkv) for block in tower.blocks]
    assert kinds == [Int8Linear] * (len(kinds) - 1) + [nn.Linear]
    assert type(tower.projection) is nn.Linear


def test_a_cpu_that_overflows_gets_smaller_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    class Overflows:
        def run(self, *_: object) -> list[np.ndarray]:
            return [np.full((32, 32), 64 * 32767 / 2, np.float32)]

    monkeypatch.setattr(sessions, "open_session", lambda *_, **__: Overflows())
    assert sessions.weight_levels.__wrapped__() == sessions.SAFE_WEIGHT_LEVELS
    monkeypatch.undo()
    assert sessions.weight_levels() in (sessions.WEIGHT_LEVELS, sessions.SAFE_WEIGHT_LEVELS)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_halves_need_a_gpu(load: Callable[..., ClipEncoder], precision: str) -> None:
    with pytest.raises(InputError, match="on a CPU use precision='float32' or 'int8'"):
        load("clip", precision=precision, device="cpu")
