"""Tiny checkpoints, the same weights under every layout, for the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from piaa.encoders.layouts import OPENAI_MARKERS
from piaa.encoders.synthetic import synthetic_checkpoint

State = dict[str, Tensor]


def tiny_openai(
    *,
    seed: int = 0,
    width: int = 64,
    depth: int = 2,
    patch: int = 8,
    grid: int = 3,
    embed_dim: int = 24,
    text_width: int = 64,
    text_depth: int = 1,
    vocabulary: int = 96,
) -> State:
    """OpenAI's names, with its three size markers; a small vocabulary, so that files stay small."""
    state = synthetic_checkpoint(
        seed=seed,
        width=width,
        depth=depth,
        patch=patch,
        grid=grid,
        embed_dim=embed_dim,
        text_width=text_width,
        text_depth=text_depth,
    )
    state["token_embedding.weight"] = state["token_embedding.weight"][:vocabulary].clone()
    state["vocab_size"] = torch.tensor(vocabulary)
    return state


def without_markers(state: State) -> State:
    return {name: tensor for name, tensor in state.items() if name not in OPENAI_MARKERS}


def to_open_clip(state: State) -> State:
    """open_clip's names for a model whose text tower is a module of its own."""
    return {
        name if name.startswith("visual.") or name == "logit_scale" else f"text.{name}": tensor
        for name, tensor in without_markers(state).items()
    }


def to_transformers(state: State) -> State:
    """`CLIPModel`'s names: projections as (out, in), queries, keys and values apart."""
    renamed: State = {"logit_scale": state["logit_scale"]}
    towers = {"visual.": "vision_model", "": "text_model"}
    for theirs, ours in towers.items():
        blocks = f"{theirs}transformer.resblocks."
        for name in [name for name in state if name.startswith(blocks)]:
            index, _, rest = name.removeprefix(blocks).partition(".")
            layer = f"{ours}.encoder.layers.{index}"
            if rest.startswith("attn.in_proj_"):
                kind = rest.removeprefix("attn.in_proj_")
                for letter, part in zip("qkv", state[name].chunk(3), strict=True):
                    renamed[f"{layer}.self_attn.{letter}_proj.{kind}"] = part.clone()
                continue
            for old, new in {
                "ln_": "layer_norm",
                "attn.": "self_attn.",
                "mlp.c_fc": "mlp.fc1",
                "mlp.c_proj": "mlp.fc2",
            }.items():
                rest = rest.replace(old, new) if rest.startswith(old) else rest
            renamed[f"{layer}.{rest}"] = state[name]
    names = {
        "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
        "visual.class_embedding": "vision_model.embeddings.class_embedding",
        "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
        "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
        "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
        "visual.ln_post.weight": "vision_model.post_layernorm.weight",
        "visual.ln_post.bias": "vision_model.post_layernorm.bias",
        "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
        "positional_embedding": "text_model.embeddings.position_embedding.weight",
        "ln_final.weight": "text_model.final_layer_norm.weight",
        "ln_final.bias": "text_model.final_layer_norm.bias",
    }
    renamed |= {ours: state[theirs] for theirs, ours in names.items()}
    renamed["visual_projection.weight"] = state["visual.proj"].T.contiguous()
    renamed["text_projection.weight"] = state["text_projection"].T.contiguous()
    return renamed


def tiny_eva(*, seed: int = 0, depth: int = 2, hidden: int = 40) -> State:
    """EVA-02-CLIP as open_clip stores it. Its blocks are not a ViT's, so its weights are its own."""
    generator = torch.Generator().manual_seed(seed)
    text = to_open_clip(tiny_openai(seed=seed))
    state = {name: tensor for name, tensor in text.items() if not name.startswith("visual.")}
    width, patch, grid, embed_dim = 64, 8, 3, 24

    def normal(*shape: int, scale: float) -> Tensor:
        return torch.randn(*shape, generator=generator) * scale

    def linear(name: str, rows: int, columns: int, *, bias: bool = True) -> None:
        state[f"visual.trunk.{name}.weight"] = normal(rows, columns, scale=columns**-0.5)
        if bias:
            state[f"visual.trunk.{name}.bias"] = normal(rows, scale=0.05)

    def norm(name: str, size: int) -> None:
        state[f"visual.trunk.{name}.weight"] = 1 + normal(size, scale=0.1)
        state[f"visual.trunk.{name}.bias"] = normal(size, scale=0.05)

    state["visual.trunk.cls_token"] = normal(1, 1, width, scale=0.5)
    state["visual.trunk.pos_embed"] = normal(1, grid**2 + 1, width, scale=0.3)
    state["visual.trunk.patch_embed.proj.weight"] = normal(width, 3, patch, patch, scale=0.05)
    state["visual.trunk.patch_embed.proj.bias"] = normal(width, scale=0.05)
    for index in range(depth):
        block = f"blocks.{index}"
        norm(f"{block}.norm1", width)
        for letter in "qkv":
            linear(f"{block}.attn.{letter}_proj", width, width, bias=letter != "k")
        norm(f"{block}.attn.norm", width)
        linear(f"{block}.attn.proj", width, width)
        norm(f"{block}.norm2", width)
        linear(f"{block}.mlp.fc1_g", hidden, width)
        linear(f"{block}.mlp.fc1_x", hidden, width)
        norm(f"{block}.mlp.norm", hidden)
        linear(f"{block}.mlp.fc2", width, hidden)
    norm("norm", width)
    linear("head", embed_dim, width)
    return state


def save_sharded(state: Mapping[str, Tensor], folder: Path, shards: int = 3) -> Path:
    """Safetensors in several files; the path of their index."""
    names = list(state)
    weight_map: dict[str, str] = {}
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: state[name] for name in names[number::shards]}
        save_file(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index
