"""The architecture that a checkpoint's tensors make: sizes read off shapes, nothing guessed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import torch

from piaa.encoders.architecture import Activation, Architecture, Family, TowerShape
from piaa.encoders.layouts import Converted, State, some
from piaa.errors import CheckpointError


def read_architecture(
    converted: Converted,
    *,
    activation: Activation,
    vision_heads: int | None = None,
    text_heads: int | None = None,
    head_width: int,
    norm_eps: tuple[float, float] | None = None,
) -> Architecture:
    """Width, depth, patch, grid and embedding size from tensors; heads as told or by `head_width`."""
    family: Family = "eva02" if converted.layout == "eva02" else "vit"

    def size(name: str, dimensions: int = 2) -> torch.Size:
        return _size(converted, name, dimensions)

    width, channels, patch, across = size("vision.patch_embed.weight", 4)
    positions, context = size("vision.positions")[0], size("text.positions")[0]
    vocabulary, text_width = size("text.token_embedding.weight")
    embed_dim = size("vision.projection.weight")[0]
    gated = "mlp.gate_and_value" if family == "eva02" else "mlp.fc1"
    hidden = size(f"vision.blocks.0.{gated}.weight")[0]
    text_hidden = size("text.blocks.0.mlp.fc1.weight")[0]
    if channels != 3 or patch != across:
        raise CheckpointError(
            f"The patch embedding has shape {(width, channels, patch, across)}; (width, 3, patch, "
            "patch) is needed."
        )
    side = math.isqrt(positions - 1)
    if side < 1 or side * side != positions - 1:
        raise CheckpointError(
            f"The checkpoint has {positions} image positions; 1 + a square number is needed."
        )
    eps = norm_eps or ((1e-6, 1e-5) if family == "eva02" else (1e-5, 1e-5))
    return Architecture(
        family=family,
        activation=activation,
        embed_dim=embed_dim,
        patch=patch,
        grid=(side, side),
        vision=TowerShape(
            width=width,
            depth=_depth(converted.state, "vision"),
            heads=_heads("vision", width, vision_heads, head_width, rotary=family == "eva02"),
            hidden=hidden // 2 if family == "eva02" else hidden,
            norm_eps=eps[0],
        ),
        text=TowerShape(
            width=text_width,
            depth=_depth(converted.state, "text"),
            heads=_heads("text", text_width, text_heads, head_width),
            hidden=text_hidden,
            norm_eps=eps[1],
        ),
        context_length=context,
        vocabulary=vocabulary,
    )


def _size(converted: Converted, name: str, dimensions: int) -> torch.Size:
    if name not in converted.state:
        raise CheckpointError(
            f"The checkpoint looks like {converted.layout} layout but lacks {name} (piaa's name for "
            "it). It may be cut, or hold one tower only; both are needed."
        )
    shape = converted.state[name].shape
    if len(shape) != dimensions or 0 in shape:
        raise CheckpointError(
            f"{name} (piaa's name for it) has shape {tuple(shape)}; {dimensions} dimensions, none of "
            "them empty, are needed."
        )
    return shape


def _depth(state: State, tower: str) -> int:
    pattern = re.compile(tower + r"\.blocks\.(\d+)\.")
    found = {match[1] for match in map(pattern.match, state) if match}
    lost = {str(index) for index in range(len(found))} - found
    if lost:
        raise CheckpointError(
            f"The {tower} tower has {len(found)} blocks, but none numbered {some(sorted(lost))}: the "
            "checkpoint is cut or mixed from two models."
        )
    return len(found)


def _heads(
    tower: str, width: int, told: int | None, head_width: int, *, rotary: bool = False
) -> int:
    """As told by a config, else by head width. Rotary positions turn channels by fours."""
    unit = 4 if rotary else 1
    heads = width // head_width if told is None else told
    if heads < 1 or width % (heads * unit) or (told is None and width % head_width):
        asked = f"heads of width {head_width}" if told is None else f"{told} heads"
        raise CheckpointError(
            f"The {tower} tower is {width} wide, which does not divide into {asked}"
            f"{' of a multiple of 4' if rotary else ''}. Tensors do not show the number of heads: "
            "pass head_width=, or keep the model's right config.json beside the weights."
        )
    return heads


def check_state(state: State, expected: Mapping[str, torch.Size]) -> None:
    """Compare names and shapes with the model's; one error that tells all kinds of difference."""
    missing = [name for name in expected if name not in state]
    unexpected = [name for name in state if name not in expected]
    misshapen = [
        f"{name} {tuple(state[name].shape)} in place of {tuple(shape)}"
        for name, shape in expected.items()
        if name in state and state[name].shape != shape
    ]
    problems = [
        f"{len(names)} {kind} ({some(names)})"
        for kind, names in (
            ("missing", missing),
            ("unexpected", unexpected),
            ("misshapen", misshapen),
        )
        if names
    ]
    if problems:
        raise CheckpointError(
            f"The checkpoint's tensors do not make one model: {'; '.join(problems)}. Names are "
            "piaa's. The file may be cut, mixed from two models, or an unsupported variant."
        )
