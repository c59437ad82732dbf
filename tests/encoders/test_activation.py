"""QuickGELU and GELU cannot be confused, and what `load_encoder` says to wrong arguments."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import pytest
import torch
from checkpoint_samples import (
    State,
    tiny_eva,
    tiny_openai,
    to_open_clip,
    to_transformers,
    without_markers,
)
from safetensors.torch import save_file

from piaa import list_encoders, load_encoder
from piaa.encoders import registry
from piaa.encoders.configs import ActivationWarning
from piaa.encoders.registry import EncoderEntry
from piaa.errors import CheckpointError, InputError, UnknownNameError

pytestmark = pytest.mark.usefixtures("one_thread")
STATE = tiny_openai()
FLAT = without_markers(STATE)
PIXELS = torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(0, 96, (1, 77), generator=torch.Generator().manual_seed(0))
QUICK_CONFIG = {"model_cfg": {"quick_gelu": True}}
GELU_CONFIG = {"model_cfg": {"embed_dim": 24}}


def tower(act: str | None, heads: int = 1) -> dict[str, object]:
    return {"num_attention_heads": heads} | ({"hidden_act": act} if act else {})


def transformers_config(act: str | None, heads: int = 1) -> dict[str, object]:
    return {"vision_config": tower(act, heads), "text_config": tower(act, heads)}


def save(folder: Path, state: State, **configs: object) -> Path:
    save_file(state, folder / "weights.safetensors")
    for name, content in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder / "weights.safetensors"


@pytest.mark.parametrize(
    ("state", "configs", "activation"),
    [
        pytest.param(STATE, {}, "quick_gelu", id="OpenAI's markers"),
        pytest.param(STATE, {"open_clip_config": GELU_CONFIG}, "quick_gelu", id="markers win"),
        pytest.param(tiny_eva(), {}, "gelu", id="EVA-02"),
        pytest.param(FLAT, {"open_clip_config": GELU_CONFIG}, "gelu", id="flat, config"),
        pytest.param(
            FLAT, {"open_clip_config": QUICK_CONFIG}, "quick_gelu", id="flat, quick config"
        ),
        pytest.param(
            to_open_clip(STATE), {"open_clip_config": GELU_CONFIG}, "gelu", id="open_clip, config"
        ),
        pytest.param(
            to_open_clip(STATE),
            {"open_clip_config": QUICK_CONFIG},
            "quick_gelu",
            id="open_clip, quick config",
        ),
        pytest.param(
            to_transformers(STATE),
            {"config": transformers_config("gelu")},
            "gelu",
            id="transformers, config",
        ),
        pytest.param(
            to_transformers(STATE),
            {"config": transformers_config(None)},
            "quick_gelu",
            id="transformers, its default",
        ),
    ],
)
def test_what_fixes_the_activation(
    tmp_path: Path, state: State, configs: dict[str, object], activation: str
) -> None:
    path = save(tmp_path, state, **configs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_encoder(weights=path).architecture.activation == activation
        assert (
            load_encoder(weights=path, activation=activation).architecture.activation == activation
        )
    other = "gelu" if activation == "quick_gelu" else "quick_gelu"
    with pytest.raises(InputError, match=f"activation='{other}' was asked for, .* '{activation}'"):
        load_encoder(weights=path, activation=other)


@pytest.mark.parametrize("state", [FLAT, to_transformers(STATE)])
def test_layouts_that_imply_quick_gelu_say_so(tmp_path: Path, state: State) -> None:
    path = save(tmp_path, state)
    with pytest.warns(ActivationWarning, match="pass activation="):
        assert load_encoder(weights=path).architecture.activation == "quick_gelu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for activation in ("quick_gelu", "gelu"):
            found = load_encoder(weights=path, activation=activation).architecture
            assert found.activation == activation


def test_open_clip_alone_leaves_it_open(tmp_path: Path) -> None:
    path = save(tmp_path, to_open_clip(STATE))
    with pytest.raises(CheckpointError, match="Pass activation='quick_gelu'"):
        load_encoder(weights=path)
    quick, gelu = (load_encoder(weights=path, activation=a) for a in ("quick_gelu", "gelu"))
    for method, argument in (("encode_pixels", PIXELS), ("encode_tokens", TOKENS)):
        a, b = (getattr(encoder, method)(argument) for encoder in (quick, gelu))
        a, b = (a, b) if method == "encode_tokens" else (a.cls, b.cls)
        assert (a - b).abs().max() > 1e-4


def test_a_registry_entry_fixes_it(tmp_path: Path, tiny_entry: EncoderEntry) -> None:
    path = save(tmp_path, to_open_clip(STATE), open_clip_config=GELU_CONFIG)
    assert load_encoder("Tiny", weights=path).architecture.activation == "quick_gelu"
    with pytest.raises(InputError, match="encoder 'Tiny' has 'quick_gelu'"):
        load_encoder("Tiny", weights=path, activation="gelu")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(transformers_config("relu"), id="unknown activation"),
        pytest.param(
            {"vision_config": tower("gelu"), "text_config": tower("quick_gelu")},
            id="two activations",
        ),
        pytest.param(transformers_config("gelu", heads=7), id="heads that do not divide"),
        pytest.param(transformers_config("gelu", heads=0), id="no heads"),
        pytest.param(transformers_config("gelu", heads=-1), id="negative heads"),
        pytest.param(
            {"vision_config": tower("gelu"), "text_config": tower("gelu", heads=7)},
            id="text heads that do not divide",
        ),
        pytest.param([], id="a list"),
    ],
)
def test_configs_that_cannot_be(tmp_path: Path, config: object) -> None:
    path = save(tmp_path, to_transformers(STATE), config=config)
    with pytest.raises(CheckpointError):
        load_encoder(weights=path)


@pytest.mark.parametrize(
    ("state", "head_width"),
    [
        pytest.param(STATE, 48, id="no divisor"),
        pytest.param(STATE, 128, id="wider than the tower"),
        pytest.param(tiny_eva(), 2, id="rotary positions need multiples of 4"),
    ],
)
def test_head_widths_that_cannot_be(tmp_path: Path, state: State, head_width: int) -> None:
    path = save(tmp_path, state)
    with pytest.raises(CheckpointError, match="pass head_width="):
        load_encoder(weights=path, head_width=head_width)


@pytest.mark.parametrize("name", ["ViT-B-16", "EVA02-L-14"])
def test_weights_of_another_architecture_than_named(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, STATE)
    with pytest.raises(CheckpointError, match=f"is not {name}: .*patch 8 in place of 1[46]"):
        load_encoder(name, weights=path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nonsense"}, "device='nonsense'"),
        ({"device": 3.5}, "device=3.5"),
        ({"precision": "int4"}, "Unknown precision 'int4'"),
        ({"activation": "relu"}, "Unknown activation 'relu'"),
        ({"head_width": 0}, "head_width must be a whole number"),
        ({"image_size": 25}, "image_size=25"),
        ({"frontend": "sclap"}, "Did you mean 'clip' or 'sclip'"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = save(tmp_path, STATE)
    with pytest.raises(InputError, match=re.escape(message)):
        load_encoder(weights=path, **options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    path = save(tmp_path, STATE)
    with pytest.raises(InputError, match="Use device='cpu'"):
        load_encoder(weights=path, device="cuda")


def test_neither_name_nor_weights() -> None:
    with pytest.raises(InputError, match="Name an encoder or give weights="):
        load_encoder()


@pytest.mark.parametrize(
    ("name", "near"),
    [("ViT-B-61", "'ViT-B-16'"), ("vit-l14", "'ViT-L-14'"), ("EVA2-B-16", "'EVA02-B-16'")],
)
def test_a_mistyped_name_lists_near_matches(name: str, near: str) -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean .*" + re.escape(near)) as caught:
        load_encoder(name)
    assert all(known in str(caught.value) for known in list_encoders())


@pytest.mark.parametrize("name", ["ViT-L/14@336px", "vit-l-14-336", "ViT-L-14-336"])
def test_spellings_of_a_name(name: str) -> None:
    assert registry.find_encoder(name).name == "ViT-L-14-336"


def test_every_registered_encoder_is_pinned() -> None:
    """The seven encoders of the paper; sizes as OpenAI and BAAI published them."""
    sizes = {
        "ViT-B-32": (768, 12, 32, 224, 512),
        "ViT-B-16": (768, 12, 16, 224, 512),
        "ViT-L-14": (1024, 24, 14, 224, 768),
        "ViT-L-14-336": (1024, 24, 14, 336, 768),
        "EVA02-B-16": (768, 12, 16, 224, 512),
        "EVA02-L-14": (1024, 24, 14, 224, 768),
        "EVA02-L-14-336": (1024, 24, 14, 336, 768),
    }
    assert list_encoders() == [*sizes, "lite", "lite-fast"]
    for name, entry in registry.ENCODERS.items():
        found = (entry.width, entry.depth, entry.patch, entry.image_size, entry.embed_dim)
        assert found == sizes[name]
        assert entry.activation == ("gelu" if entry.family == "eva02" else "quick_gelu")
        assert (entry.family == "eva02") == name.startswith("EVA02")
        assert re.fullmatch(r"[0-9a-f]{40}", entry.revision)
        assert re.fullmatch(r"[0-9a-f]{64}", entry.sha256)
    assert len({entry.sha256 for entry in registry.ENCODERS.values()}) == len(sizes)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("config.json", {"vision_config": "x"}, "vision_config 'x'"),
        ("config.json", {"vision_config": {"num_attention_heads": 1.5}}, "num_attention_heads 1.5"),
        ("config.json", {"text_config": {"num_attention_heads": [1]}}, "whole number"),
        ("config.json", {"text_config": {"hidden_act": ["gelu"]}}, "hidden_act"),
        ("config.json", {"text_config": {"layer_norm_eps": -1}}, "layer_norm_eps -1"),
        ("open_clip_config.json", {"model_cfg": {"quick_gelu": "no"}}, "quick_gelu 'no'"),
        (
            "open_clip_config.json",
            {"model_cfg": {"vision_cfg": {"head_width": "x"}}},
            "head_width 'x'",
        ),
        (
            "open_clip_config.json",
            {"model_cfg": {"text_cfg": {"act_kwargs": {"a": 1}}}},
            "act_kwargs",
        ),
        ("open_clip_config.json", {"model_cfg": 3}, "model_cfg 3"),
    ],
)
def test_configs_that_make_no_sense(name: str, config: dict, message: str) -> None:
    from piaa.encoders.checkpoints import Checkpoint
    from piaa.encoders.configs import ConfigHints
    from piaa.encoders.layouts import Converted
    from piaa.errors import CheckpointError

    layout = "transformers" if name == "config.json" else "open_clip"
    checkpoint = Checkpoint("here", {}, {name: config}, "0" * 64)
    with pytest.raises(CheckpointError, match=message):
        ConfigHints.read(checkpoint, Converted(layout, {}, False, None))
