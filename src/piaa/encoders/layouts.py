"""Foreign checkpoint layouts: recognized by tensor names, renamed to ours, shapes read off.

Four layouts are known: OpenAI's state dict (open_clip stores its own plain CLIPs under the same
names), open_clip's with the text tower under `text.`, EVA-02-CLIP as open_clip stores it, and
transformers' `CLIPModel`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from piaa.errors import CheckpointError

Layout = Literal["openai", "open_clip", "eva02", "transformers"]
State = dict[str, Tensor]

# Rules are (pattern, our name); a name must match one of them completely.
_NORM = r"(weight|bias)"
_OPENAI_BLOCK = [
    (r"resblocks\.(\d+)\.ln_([12])\." + _NORM, r"blocks.\1.norm\2.\3"),
    (r"resblocks\.(\d+)\.attn\.in_proj_(weight|bias)", r"blocks.\1.qkv.\2"),
    (r"resblocks\.(\d+)\.attn\.out_proj\.(weight|bias)", r"blocks.\1.out.\2"),
    (r"resblocks\.(\d+)\.mlp\.c_fc\.(weight|bias)", r"blocks.\1.mlp.fc1.\2"),
    (r"resblocks\.(\d+)\.mlp\.c_proj\.(weight|bias)", r"blocks.\1.mlp.fc2.\2"),
]


def _openai_text(prefix: str) -> list[tuple[str, str]]:
    head = re.escape(prefix)
    return [
        (head + r"token_embedding\.weight", "text.token_embedding.weight"),
        (head + r"positional_embedding", "text.positions"),
        (head + r"ln_final\." + _NORM, r"text.final_norm.\1"),
        (head + r"text_projection", "text.projection.weight^T"),
        *((head + r"transformer\." + p, "text." + n) for p, n in _OPENAI_BLOCK),
    ]


_OPENAI_VISION = [
    (r"visual\.conv1\.weight", "vision.patch_embed.weight"),
    (r"visual\.class_embedding", "vision.cls_token"),
    (r"visual\.positional_embedding", "vision.positions"),
    (r"visual\.ln_(pre|post)\." + _NORM, r"vision.\1_norm.\2"),
    (r"visual\.proj", "vision.projection.weight^T"),
    *((r"visual\.transformer\." + p, "vision." + n) for p, n in _OPENAI_BLOCK),
]
_EVA_VISION = [
    (r"visual\.trunk\.patch_embed\.proj\.(weight|bias)", r"vision.patch_embed.\1"),
    (r"visual\.trunk\.cls_token", "vision.cls_token"),
    (r"visual\.trunk\.pos_embed", "vision.positions"),
    (r"visual\.trunk\.norm\." + _NORM, r"vision.post_norm.\1"),
    (r"visual\.trunk\.head\.(weight|bias)", r"vision.projection.\1"),
    (r"visual\.trunk\.blocks\.(\d+)\.norm([12])\." + _NORM, r"vision.blocks.\1.norm\2.\3"),
    (
        r"visual\.trunk\.blocks\.(\d+)\.attn\.([qkv])_proj\.(weight|bias)",
        r"vision.blocks.\1.qkv[\2].\3",
    ),
    (r"visual\.trunk\.blocks\.(\d+)\.attn\.norm\." + _NORM, r"vision.blocks.\1.inner_norm.\2"),
    (r"visual\.trunk\.blocks\.(\d+)\.attn\.proj\.(weight|bias)", r"vision.blocks.\1.out.\2"),
    (
        r"visual\.trunk\.blocks\.(\d+)\.mlp\.fc1_([gx])\.(weight|bias)",
        r"vision.blocks.\1.mlp.gate_and_value[\2].\3",
    ),
    (r"visual\.trunk\.blocks\.(\d+)\.mlp\.norm\." + _NORM, r"vision.blocks.\1.mlp.norm.\2"),
    (r"visual\.trunk\.blocks\.(\d+)\.mlp\.fc2\.(weight|bias)", r"vision.blocks.\1.mlp.fc2.\2"),
]


def _transformers_tower(theirs: str, ours: str) -> list[tuple[str, str]]:
    layer = theirs + r"\.encoder\.layers\.(\d+)\."
    return [
        (layer + r"layer_norm([12])\." + _NORM, ours + r".blocks.\1.norm\2.\3"),
        (layer + r"self_attn\.([qkv])_proj\.(weight|bias)", ours + r".blocks.\1.qkv[\2].\3"),
        (layer + r"self_attn\.out_proj\.(weight|bias)", ours + r".blocks.\1.out.\2"),
        (layer + r"mlp\.fc([12])\.(weight|bias)", ours + r".blocks.\1.mlp.fc\2.\3"),
    ]


_TRANSFORMERS = [
    (r"vision_model\.embeddings\.patch_embedding\.weight", "vision.patch_embed.weight"),
    (r"vision_model\.embeddings\.class_embedding", "vision.cls_token"),
    (r"vision_model\.embeddings\.position_embedding\.weight", "vision.positions"),
    (r"vision_model\.pre_layrnorm\." + _NORM, r"vision.pre_norm.\1"),  # their spelling
    (r"vision_model\.post_layernorm\." + _NORM, r"vision.post_norm.\1"),
    (r"visual_projection\.weight", "vision.projection.weight"),
    *_transformers_tower("vision_model", "vision"),
    (r"text_model\.embeddings\.token_embedding\.weight", "text.token_embedding.weight"),
    (r"text_model\.embeddings\.position_embedding\.weight", "text.positions"),
    (r"text_model\.final_layer_norm\." + _NORM, r"text.final_norm.\1"),
    (r"text_projection\.weight", "text.projection.weight"),
    *_transformers_tower("text_model", "text"),
]
_RULES: dict[Layout, list[tuple[str, str]]] = {
    "openai": _OPENAI_VISION + _openai_text(""),
    "open_clip": _OPENAI_VISION + _openai_text("text."),
    "eva02": _EVA_VISION + _openai_text("text."),
    "transformers": _TRANSFORMERS,
}
# Tensors that carry no weights of the two towers; only OpenAI's own files have the first three.
OPENAI_MARKERS = frozenset({"input_resolution", "context_length", "vocab_size"})
_NOT_WEIGHTS = re.compile(
    r"logit_scale|logit_bias|attn_mask|text\.attn_mask|(vision|text)_model\.embeddings\.position_ids|"
    + "|".join(OPENAI_MARKERS)
)
_FUSED = {"qkv": "qkv", "gate_and_value": "gx"}
_WEIGHT_TYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


def detect_layout(names: frozenset[str]) -> Layout:
    """The layout that a set of tensor names belongs to; `CheckpointError` if none."""
    if "vision_model.embeddings.class_embedding" in names:
        return "transformers"
    if any(re.fullmatch(r"visual\.trunk\.blocks\.\d+\.attn\.q_proj\.weight", n) for n in names):
        return "eva02"
    if "visual.conv1.weight" in names and "visual.class_embedding" in names:
        return "open_clip" if "text.token_embedding.weight" in names else "openai"
    sample = ", ".join(sorted(names)[:4]) or "none at all"
    if "visual.layer1.0.conv1.weight" in names:
        found = "a CLIP with a ResNet image tower, which has no patch tokens"
    elif any(n.startswith("vision_model.") for n in names):
        found = "a transformers model without a class token (SigLIP or similar)"
    else:
        found = f"none of these layouts (its first tensors: {sample})"
    raise CheckpointError(
        f"The checkpoint is {found}. Accepted: CLIP ViT in OpenAI's, open_clip's or transformers' "
        "layout, EVA-02-CLIP in open_clip's layout, image and text tower in one checkpoint."
    )


@dataclass(frozen=True)
class Converted:
    """A checkpoint under our names (float32), with the facts that only the original showed."""

    layout: Layout
    state: State
    marked_openai: bool
    logit_scale: float | None


def convert(tensors: Mapping[str, Tensor]) -> Converted:
    """Rename and reshape a foreign checkpoint. Names that fit no rule are an error."""
    layout = detect_layout(frozenset(tensors))
    state: State = {}
    parts: dict[str, dict[str, Tensor]] = {}
    unexpected = []
    for name, tensor in tensors.items():
        if _NOT_WEIGHTS.fullmatch(name):
            continue
        ours = _rename(layout, name)
        if ours is None:
            unexpected.append(name)
            continue
        value = _weights(name, tensor)
        if ours.endswith("^T"):
            ours = ours.removesuffix("^T")
            value = value.T.contiguous() if value.dim() == 2 else value  # else left to `shapes`
        fused = re.fullmatch(r"(.*)\[(.)\](.*)", ours)
        if fused:
            parts.setdefault(fused[1] + fused[3], {})[fused[2]] = value
        else:
            state[ours] = value
    if unexpected:
        raise CheckpointError(
            f"The checkpoint looks like {layout} layout but has {len(unexpected)} unexpected "
            f"tensors: {some(unexpected)}. Loading is strict: remove them, or use another file."
        )
    _fuse(parts, state, layout)
    if layout == "eva02":  # which stores these with leading axes of length 1
        for name, axes in (("vision.cls_token", 2), ("vision.positions", 1)):
            if name in state and state[name].shape[:axes] == (1,) * axes:
                state[name] = state[name].flatten(0, axes)
    return Converted(
        layout=layout,
        state=state,
        marked_openai=set(tensors) >= OPENAI_MARKERS,
        logit_scale=_logit_scale(tensors),
    )


def _weights(name: str, stored: Tensor) -> Tensor:
    """A float32 copy. Other number types (8-bit floats too) mean little without their scales."""
    if stored.dtype not in _WEIGHT_TYPES or stored.layout != torch.strided or stored.is_meta:
        raise CheckpointError(
            f"Tensor {name} holds {stored.dtype} ({stored.layout}, on {stored.device}), not plain "
            "floating-point weights. Quantized checkpoints are not read; use the original one."
        )
    value = stored.detach().to(torch.float32, copy=True)
    if not value.isfinite().all():
        raise CheckpointError(f"Tensor {name} holds NaN or infinity: the checkpoint is damaged.")
    return value


def _logit_scale(tensors: Mapping[str, Tensor]) -> float | None:
    if "logit_scale" not in tensors:
        return None
    scale = _weights("logit_scale", tensors["logit_scale"]).exp()
    if scale.numel() != 1 or not scale.isfinite().all():
        raise CheckpointError(
            f"logit_scale of shape {tuple(scale.shape)}: one number with a finite exponential is needed."
        )
    return scale.item()


def _rename(layout: Layout, name: str) -> str | None:
    for pattern, ours in _RULES[layout]:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(ours)
    return None


def _fuse(parts: dict[str, dict[str, Tensor]], state: State, layout: Layout) -> None:
    """Join q, k, v (and gate, value) into the single matrices that our blocks multiply with."""
    for name, pieces in parts.items():
        stem, kind = name.rsplit(".", 1)
        order = _FUSED[stem.rsplit(".", 1)[1]]
        if layout == "eva02" and (order, kind) == ("qkv", "bias") and "q" in pieces:
            pieces.setdefault("k", torch.zeros_like(pieces["q"]))  # no bias in EVA's key projection
        lost = [piece for piece in order if piece not in pieces]
        if lost:
            raise CheckpointError(f"The checkpoint lacks part {', '.join(lost)} of {name}.")
        shapes = {piece: tuple(pieces[piece].shape) for piece in order}
        if len(set(shapes.values())) > 1 or () in shapes.values():
            raise CheckpointError(f"The parts of {name} have shapes that do not fit: {shapes}.")
        state[name] = torch.cat([pieces[piece] for piece in order])


def some(names: list[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (
        f", and {len(names) - limit} more" if len(names) > limit else ""
    )
