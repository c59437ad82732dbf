"""Tensors that make no model: one clear error, and never another exception."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from checkpoint_samples import State, tiny_eva, tiny_openai, to_transformers

from piaa import load_encoder
from piaa.encoders.layouts import convert
from piaa.errors import CheckpointError, PiaaError

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::piaa.encoders.configs.ActivationWarning"),
]
STATE = tiny_openai()
LAYOUTS = {"openai": STATE, "transformers": to_transformers(STATE), "eva02": tiny_eva()}
PIXELS = torch.zeros(1, 3, 24, 24)


def load(state: State, folder: Path) -> None:
    torch.save(state, folder / "weights.pt")
    load_encoder(weights=folder / "weights.pt")


def without(*names: str) -> Callable[[State], State]:
    return lambda state: {n: t for n, t in state.items() if not n.startswith(names)}


def having(**tensors: torch.Tensor) -> Callable[[State], State]:
    return lambda state: {**state, **{n.replace("__", "."): t for n, t in tensors.items()}}


def changed(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[State], State]:
    return lambda state: {**state, name: change(state[name])}


def renumbered(new: str) -> Callable[[State], State]:
    """The image tower's second block under another number."""
    return lambda state: {
        n.replace("visual.transformer.resblocks.1.", new): t for n, t in state.items()
    }


Q, K = (f"vision_model.encoder.layers.0.self_attn.{letter}_proj" for letter in "qk")
EVA_V = "visual.trunk.blocks.0.attn.v_proj"
BLOCKS = "visual.transformer.resblocks."


@pytest.mark.parametrize(
    ("layout", "mutate", "message"),
    [
        pytest.param("openai", without("visual.ln_pre.weight"), "1 missing", id="missing"),
        pytest.param("openai", without("visual.proj"), "lacks vision.proj", id="no projection"),
        pytest.param("openai", having(visual__more=torch.ones(2)), "visual.more", id="unexpected"),
        pytest.param(
            "openai",
            changed("visual.ln_post.weight", lambda t: t[:7]),
            r"1 misshapen \(vision.post_norm.weight \(7,\) in place of \(64,\)",
            id="misshapen",
        ),
        pytest.param(
            "openai",
            changed("visual.class_embedding", lambda t: t[None, None]),
            r"1 misshapen \(vision.cls_token \(1, 1, 64\)",
            id="axes of length 1 where the layout has none",
        ),
        pytest.param("openai", without("visual."), "none of these layouts", id="text only"),
        pytest.param(
            "openai",
            without("token", "pos", "transformer", "ln_final", "text"),
            "one tower only",
            id="vision only",
        ),
        pytest.param(
            "transformers", without("text"), "one tower only", id="transformers, vision only"
        ),
        pytest.param(
            "transformers",
            without(f"{K}.bias"),
            "lacks part k of vision.blocks.0",
            id="no key bias",
        ),
        pytest.param(
            "transformers", without(f"{K}.weight"), "lacks part k of vision.blocks.0", id="no keys"
        ),
        pytest.param("eva02", without(f"{EVA_V}.bias"), "lacks part v", id="eva, no value bias"),
        pytest.param(
            "transformers",
            changed(f"{Q}.weight", lambda t: t[:, :5]),
            "shapes that do not fit",
            id="queries unlike keys",
        ),
        pytest.param(
            "transformers",
            changed(f"{Q}.bias", lambda t: t[0]),
            "shapes that do not fit",
            id="query bias of no dimension",
        ),
        pytest.param(
            "eva02",
            changed("visual.trunk.pos_embed", lambda t: t.expand(2, -1, -1)),
            r"vision.positions .* shape \(2, 10, 64\)",
            id="eva, two sets of positions",
        ),
        pytest.param("openai", renumbered(f"{BLOCKS}2."), "none numbered 1", id="gap in blocks"),
        pytest.param(
            "openai", renumbered(f"{BLOCKS}{10**12}."), "none numbered 1", id="huge block number"
        ),
        pytest.param("openai", renumbered(f"{BLOCKS}01."), "none numbered 1", id="block 01"),
        pytest.param("openai", without(BLOCKS), "lacks vision.blocks.0", id="no blocks"),
        pytest.param(
            "openai",
            changed("visual.conv1.weight", lambda t: t.flatten(1)),
            "4 dimensions",
            id="flat patch embedding",
        ),
        pytest.param(
            "openai",
            changed("visual.conv1.weight", lambda t: t[:, :1]),
            "width, 3, patch, patch",
            id="gray patch embedding",
        ),
        pytest.param(
            "openai",
            changed("visual.conv1.weight", lambda t: t[..., :4]),
            "width, 3, patch, patch",
            id="oblong patches",
        ),
        pytest.param(
            "openai",
            changed("visual.conv1.weight", lambda t: t[:0]),
            "none of them empty",
            id="width 0",
        ),
        pytest.param(
            "openai",
            changed("visual.positional_embedding", lambda t: t[0]),
            "2 dimensions",
            id="positions of one dimension",
        ),
        pytest.param(
            "openai",
            changed("visual.positional_embedding", lambda t: t[:8]),
            "8 image positions",
            id="positions of no square",
        ),
        pytest.param(
            "openai",
            changed("visual.positional_embedding", lambda t: t[:1]),
            "1 image positions",
            id="no patch positions",
        ),
        pytest.param(
            "openai",
            changed("positional_embedding", lambda t: t[:0]),
            "none of them empty",
            id="context of length 0",
        ),
        pytest.param(
            "openai",
            changed("visual.proj", lambda t: t.sum()),
            "2 dimensions",
            id="projection of no dimension",
        ),
        pytest.param(
            "openai",
            changed("text_projection", lambda t: t[None]),
            "misshapen",
            id="projection of three dimensions",
        ),
        pytest.param(
            "openai",
            changed("logit_scale", lambda t: t.expand(2)),
            "logit_scale",
            id="two logit scales",
        ),
        pytest.param(
            "openai",
            changed("logit_scale", lambda t: t * 100),
            "logit_scale",
            id="infinite logit scale",
        ),
        pytest.param(
            "openai", changed("visual.proj", torch.Tensor.char), "torch.int8", id="integers"
        ),
        pytest.param(
            "openai",
            changed("visual.proj", lambda t: t.to(torch.float8_e4m3fn)),
            "float8",
            id="8-bit floats",
        ),
        pytest.param(
            "openai",
            changed("visual.proj", lambda t: t.to(torch.complex64)),
            "complex",
            id="complex numbers",
        ),
        pytest.param(
            "openai", changed("visual.proj", torch.Tensor.to_sparse), "sparse", id="sparse"
        ),
        pytest.param(
            "openai", changed("visual.proj", lambda t: t.to("meta")), "on meta", id="no content"
        ),
        pytest.param(
            "openai",
            changed("visual.proj", lambda t: t / 0),
            "visual.proj holds NaN",
            id="infinity",
        ),
        pytest.param(
            "openai",
            changed("ln_final.bias", lambda t: t * torch.nan),
            "ln_final.bias holds NaN",
            id="NaN",
        ),
        pytest.param(
            "openai",
            lambda state: {"visual.layer1.0.conv1.weight": torch.ones(4, 3, 3, 3)},
            "ResNet",
            id="ResNet",
        ),
        pytest.param(
            "openai",
            lambda state: {
                "vision_model.embeddings.patch_embedding.weight": torch.ones(4, 3, 8, 8)
            },
            "without a class token",
            id="SigLIP",
        ),
        pytest.param(
            "openai",
            lambda state: {"conv1.weight": torch.ones(4, 3, 3, 3)},
            "its first tensors: conv1.weight",
            id="another model",
        ),
    ],
)
def test_tensors_that_make_no_model(
    tmp_path: Path, layout: str, mutate: Callable[[State], State], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        load(mutate(LAYOUTS[layout]), tmp_path)


def mutated(state: State, chance: random.Random) -> State:
    """A copy with one to three tensors dropped, renamed, reshaped or of another type."""
    state = dict(state)
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(list(state))
        tensor = state.pop(name)
        other = chance.choice(list(state))
        kind = chance.randrange(10)
        if kind == 0:
            continue
        if kind == 1:
            name = other
        elif kind == 2:
            name = name.replace("0", chance.choice(["1", "2", "00", "x"]))
        elif kind == 3:
            tensor = tensor.flatten()
        elif kind == 4:
            tensor = tensor[None]
        elif kind == 5 and tensor.dim():
            tensor = tensor[: chance.randrange(len(tensor))]
        elif kind == 6 and tensor.dim():
            tensor = tensor.transpose(0, -1).contiguous()
        elif kind == 7:
            tensor = tensor.to(chance.choice([torch.float16, torch.int8, torch.bool, torch.cfloat]))
        elif kind == 8:
            tensor = tensor.sum()
        else:
            tensor = state[other].clone()
        state[name] = tensor
    return state


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_mutations_load_or_give_a_piaa_error(tmp_path: Path, layout: str) -> None:
    chance = random.Random(layout)
    refused = 0
    for _ in range(80):
        torch.save(mutated(LAYOUTS[layout], chance), tmp_path / "weights.pt")
        try:
            encoder = load_encoder(weights=tmp_path / "weights.pt")
        except PiaaError:
            refused += 1
        else:
            assert encoder.encode_pixels(PIXELS).patches.isfinite().all()
    assert 40 < refused < 80  # some mutations are harmless: a half precision, a marker dropped


def test_conversion_leaves_the_stored_tensors_alone() -> None:
    before = {name: tensor.clone() for name, tensor in STATE.items()}
    for tensor in convert(STATE).state.values():
        tensor.zero_()
    assert all(torch.equal(STATE[name], before[name]) for name in before)
