"""What a checkpoint's neighbors and layout say of things that its tensors do not show."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from piaa.encoders import checkpoints
from piaa.encoders.architecture import ACTIVATIONS, HEAD_WIDTH, Activation
from piaa.encoders.checkpoints import Checkpoint
from piaa.encoders.layouts import Converted
from piaa.encoders.registry import EncoderEntry
from piaa.errors import CheckpointError, InputError


class ActivationWarning(UserWarning):
    """The activation was taken from the checkpoint's layout and nothing else confirms it."""


@dataclass(frozen=True)
class ConfigHints:
    """What config files beside the weights say; None where they say nothing."""

    activation: str | None = None
    vision_heads: int | None = None
    text_heads: int | None = None
    norm_eps: tuple[float, float] | None = None

    @staticmethod
    def read(checkpoint: Checkpoint, converted: Converted) -> ConfigHints:
        if converted.layout == "transformers" and "config.json" in checkpoint.configs:
            return _from_transformers(checkpoint.configs["config.json"])
        if converted.layout == "eva02":
            return ConfigHints(activation="gelu")  # of its text tower; the image tower has SwiGLU
        if converted.marked_openai or checkpoint.sha256 in checkpoints.OPENAI_ARCHIVES:
            return ConfigHints(activation="quick_gelu")
        if converted.layout != "transformers" and "open_clip_config.json" in checkpoint.configs:
            return _from_open_clip(checkpoint.configs["open_clip_config.json"], converted)
        return ConfigHints()


def _from_transformers(config: Mapping[str, Any]) -> ConfigHints:
    """A value that a config leaves out is transformers' default for it."""
    where = "config.json"
    vision, text = _section(config, "vision_config", where), _section(config, "text_config", where)
    acts = [str(part.get("hidden_act", "quick_gelu")) for part in (vision, text)]
    if acts[0] != acts[1] or acts[0] not in ACTIVATIONS:
        raise CheckpointError(
            f"{where} asks for hidden_act {' and '.join(acts)}; both towers must have the same, "
            f"one of {', '.join(ACTIVATIONS)}."
        )
    eps = [_number(part, "layer_norm_eps", 1e-5, where) for part in (vision, text)]
    return ConfigHints(
        activation=acts[0],
        vision_heads=_whole(vision, "num_attention_heads", 12, where),
        text_heads=_whole(text, "num_attention_heads", 8, where),
        norm_eps=(eps[0], eps[1]),
    )


def _from_open_clip(config: Mapping[str, Any], converted: Converted) -> ConfigHints:
    """A value that a config leaves out is open_clip's default for it: GELU, heads 64 wide."""
    where = "open_clip_config.json"
    model = _section(config, "model_cfg", where)
    vision, text = _section(model, "vision_cfg", where), _section(model, "text_cfg", where)
    quick = model.get("quick_gelu", False)
    if not isinstance(quick, bool):
        raise CheckpointError(f"{where} has quick_gelu {quick!r}; true or false is needed.")
    changed = [
        key for part in (vision, text) for key in ("act_kwargs", "norm_kwargs") if part.get(key)
    ]
    if changed:
        raise CheckpointError(f"{where} sets {', '.join(changed)}, which piaa does not know.")
    width = (
        converted.state["vision.cls_token"].numel() if "vision.cls_token" in converted.state else 0
    )
    head_width = _whole(vision, "head_width", HEAD_WIDTH, where)
    return ConfigHints(
        activation="quick_gelu" if quick else "gelu",
        vision_heads=width // head_width or None,
        text_heads=_whole(text, "heads", 0, where) or None,
    )


def _section(config: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    part = config.get(key) or {}
    if not isinstance(part, Mapping):
        raise CheckpointError(f"{where} has {key} {part!r}; a JSON object is needed.")
    return part


def _whole(config: Mapping[str, Any], key: str, default: int, where: str) -> int:
    value = config.get(key, default)
    if key in config and (type(value) is not int or value < 1):
        raise CheckpointError(f"{where} has {key} {value!r}; a whole number above 0 is needed.")
    return int(value)


def _number(config: Mapping[str, Any], key: str, default: float, where: str) -> float:
    value = config.get(key, default)
    if type(value) not in (int, float) or not 0 < value < 1:
        raise CheckpointError(f"{where} has {key} {value!r}; a number between 0 and 1 is needed.")
    return float(value)


def choose_activation(
    entry: EncoderEntry | None,
    asked: Activation | None,
    hints: ConfigHints,
    converted: Converted,
    checkpoint: Checkpoint,
) -> Activation:
    """QuickGELU or GELU: a wrong one gives plausible but wrong features, so never a guess."""
    fixed = entry.activation if entry is not None else hints.activation
    if fixed is not None:
        if asked is not None and asked != fixed:
            who = f"encoder {entry.name!r}" if entry else f"the checkpoint {checkpoint.source}"
            raise InputError(f"activation={asked!r} was asked for, but {who} has {fixed!r}.")
        return "quick_gelu" if fixed == "quick_gelu" else "gelu"
    if asked is not None:
        return asked
    if converted.layout == "open_clip":
        raise CheckpointError(
            f"{checkpoint.source} is in open_clip's layout, whose models have either activation, and "
            "its tensors do not show which. Pass activation='quick_gelu' (OpenAI, DFN and names that "
            "end in -quickgelu) or activation='gelu' (LAION, DataComp), or keep its "
            "open_clip_config.json beside it."
        )
    warnings.warn(
        f"{checkpoint.source} is in {converted.layout} layout: taken for a model with QuickGELU, as "
        "OpenAI's are. Models of others are sometimes stored under the same names with GELU: pass "
        "activation= to say which it is, or keep its config file beside it.",
        ActivationWarning,
        stacklevel=4,
    )
    return "quick_gelu"
