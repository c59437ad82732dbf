"""`load_encoder`: a name or weights, a front-end and options -> a ready encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from piaa.encoders import checkpoints
from piaa.encoders.architecture import ACTIVATIONS, HEAD_WIDTH, Activation, Architecture
from piaa.encoders.base import EncoderSpec
from piaa.encoders.checkpoints import Checkpoint
from piaa.encoders.clip import ClipEncoder, ClipModel
from piaa.encoders.configs import ConfigHints, choose_activation
from piaa.encoders.frontends import find_frontend, make_frontend
from piaa.encoders.frontends.base import Frontend
from piaa.encoders.frontends.sc_clip import ScClip
from piaa.encoders.int8 import quantize_trunk
from piaa.encoders.layouts import Converted, convert
from piaa.encoders.lite import LITE_ENCODERS, LiteEncoder, load_lite
from piaa.encoders.lite.loading import IMAGE_SIZE as LITE_IMAGE_SIZE
from piaa.encoders.precision import PRECISIONS, Precision, check_precision
from piaa.encoders.registry import EncoderEntry, find_encoder
from piaa.encoders.shapes import check_state, read_architecture
from piaa.errors import CheckpointError, InputError, UnknownNameError
from piaa.images import CLIP_MEAN, CLIP_STD, Preprocessing


def load_encoder(
    name: str | None = None,
    *,
    weights: str | os.PathLike[str] | None = None,
    frontend: str | Frontend | None = None,
    frontend_options: Mapping[str, Any] | None = None,
    image_size: int | tuple[int, int] | None = None,
    fit: Literal["crop", "squash", "pad"] | None = None,
    resize: Literal["pillow", "torch"] | None = None,
    activation: Activation | None = None,
    head_width: int = HEAD_WIDTH,
    device: str | torch.device | None = None,
    precision: Precision = "float32",
    runtime: Literal["torch", "onnx"] = "torch",
    sha256: str | None = None,
    trust_torchscript: bool = False,
) -> ClipEncoder | LiteEncoder:
    """Load a frozen vision-language encoder.

    Args:
        name: A registered encoder (`piaa.list_encoders()`): its weights come from the hub's cache
            or the hub. With `weights`, the model that those weights must be. `lite` and `lite-fast` are
            the embedded encoders, whose weights come from the package index; they take `image_size`, `fit`,
            `resize`, `device` and `precision` (float32, int8) only.
        weights: A checkpoint file, a directory, or `hf:org/repo[@revision]`. Layout and
            architecture are read from the tensors. A path never touches the network.
        frontend: How patch features are read (`piaa.list_frontends()`), or a front-end object.
            Default: `sc-clip` where it has a preset for the model's depth (12 and 24 blocks, all
            registered encoders), else `clip`.
        frontend_options: Options of the front-end that override its preset.
        image_size: Side of the square, or (rows, columns), that pictures are brought to; multiples
            of the patch size. Default: what the model was trained with.
        fit: `crop` (short side to size, center crop, as CLIP was trained; CLIP's default), `squash` (the
            embedded encoders' default) or `pad`.
        resize: `pillow` (what CLIP's own code does; its default) or `torch` (within 2/255, in half the
            time; the embedded encoders' default).
        activation: `quick_gelu` or `gelu`, where the checkpoint leaves it open.
        head_width: Width of an attention head, which tensors do not show; a `config.json` beside
            the weights is asked first.
        device: Such as `cpu` or `cuda:1`. Default: a GPU if there is one.
        precision: Of the weights and the transformer; features are always float32. `bfloat16` and `float16`
            on GPUs; `int8` (weights and activations; the last block stays in float) on CPUs, for those
            who accept features that are nearly the same.
        runtime: `torch`, or `onnx`: the whole tower as one onnxruntime graph, on CPUs, made at the first
            load and kept in the cache; needs the extra `onnx`. The embedded encoders always run in
            onnxruntime on a CPU and need no extra for it.
        sha256: Refuse the checkpoint unless it has this hash.
        trust_torchscript: Read a TorchScript archive, which carries code, of unknown origin.
    """
    if name in LITE_ENCODERS:
        wrong = {
            "weights": weights,
            "frontend_options": frontend_options,
            "activation": activation,
            "sha256": sha256,
            "head_width": None if head_width == HEAD_WIDTH else head_width,
            "runtime": None if runtime == "torch" else runtime,
            "trust_torchscript": trust_torchscript or None,
        }
        return _load_lite(name, wrong, frontend, image_size, fit, resize, device, precision)
    entry = None if name is None else find_encoder(name)
    if entry is None and weights is None:
        raise InputError("Name an encoder or give weights=: load_encoder('ViT-B-16').")
    if activation is not None and activation not in ACTIVATIONS:
        raise UnknownNameError("activation", activation, ACTIVATIONS)
    if type(head_width) is not int or head_width < 1:
        raise InputError(f"head_width must be a whole number of at least 1, not {head_width!r}.")
    if frontend is not None and not isinstance(frontend, Frontend):
        find_frontend(frontend)  # a wrong name should not cost a download
    place = _device(device)
    check_precision(precision, runtime, place)

    checkpoint = _read_checkpoint(entry, weights, sha256, trust_torchscript)
    converted = convert(checkpoint.tensors)
    hints = ConfigHints.read(checkpoint, converted)
    architecture = read_architecture(
        converted,
        activation=choose_activation(entry, activation, hints, converted, checkpoint),
        vision_heads=hints.vision_heads,
        text_heads=hints.text_heads,
        head_width=head_width,
        norm_eps=hints.norm_eps,
    )
    if entry is not None:
        _check_entry(entry, architecture, checkpoint.source)
    chosen = _frontend(frontend, frontend_options, architecture)
    preprocessing = Preprocessing(
        image_size=_image_size(image_size, architecture),
        mean=CLIP_MEAN,
        std=CLIP_STD,
        fit=fit or "crop",
        resize=resize or "pillow",
    )
    model = _fill(architecture, converted)
    spec = EncoderSpec(
        name=entry.name if entry else Path(checkpoint.source).stem,
        weights_sha256=checkpoint.sha256,
        frontend=chosen.name,
        frontend_options=chosen.options(),
        preprocessing=preprocessing,
        precision=precision,
        dim=architecture.embed_dim,
        model={
            "activation": architecture.activation,
            "head_width": architecture.vision.width // architecture.vision.heads,
            "norm_eps": architecture.vision.norm_eps,
        },
    )
    tower = None
    if precision == "int8":
        quantize_trunk(model.vision)
    if runtime == "onnx":
        from piaa.encoders.onnx_runtime import onnx_tower

        tower = onnx_tower(model.vision, chosen, spec)
    return ClipEncoder(
        model,
        architecture=architecture,
        frontend=chosen,
        spec=spec,
        source=checkpoint.source,
        logit_scale=converted.logit_scale,
        device=place,
        dtype=PRECISIONS[precision],
        tower=tower,
    )


def _load_lite(
    name: str,
    wrong: Mapping[str, object],
    frontend: object,
    image_size: int | tuple[int, int] | None,
    fit: Literal["crop", "squash", "pad"] | None,
    resize: Literal["pillow", "torch"] | None,
    device: str | torch.device | None,
    precision: Precision,
) -> LiteEncoder:
    given = [option for option, value in wrong.items() if value is not None]
    if isinstance(frontend, Frontend):
        given.append("frontend")
    if given:
        raise InputError(
            f"The embedded encoder {name!r} does not take {', '.join(given)}. Leave them out, or load a "
            "CLIP encoder."
        )
    return load_lite(
        name,
        frontend=None if frontend is None else str(frontend),
        image_size=LITE_IMAGE_SIZE if image_size is None else image_size,
        fit=fit or "squash",
        resize=resize or "torch",
        device=None if device is None else _device(device),
        precision=precision,  # type: ignore[arg-type]  # which it checks
    )


def _read_checkpoint(
    entry: EncoderEntry | None,
    weights: str | os.PathLike[str] | None,
    sha256: str | None,
    trust_torchscript: bool,
) -> Checkpoint:
    if weights is not None:
        return checkpoints.read(weights, sha256=sha256, trust_torchscript=trust_torchscript)
    if entry is None:
        raise InputError("Name an encoder or give weights=.")
    return checkpoints.read(
        f"hf:{entry.repo}@{entry.revision}",
        file=entry.file,
        sha256=sha256 or entry.sha256,
        trust_torchscript=trust_torchscript,
    )


def _check_entry(entry: EncoderEntry, found: Architecture, source: str) -> None:
    wanted = {
        "family": entry.family,
        "patch": entry.patch,
        "embed_dim": entry.embed_dim,
        "image_size": (entry.image_size, entry.image_size),
        "width": entry.width,
        "depth": entry.depth,
    }
    seen = {
        "family": found.family,
        "patch": found.patch,
        "embed_dim": found.embed_dim,
        "image_size": found.image_size,
        "width": found.vision.width,
        "depth": found.vision.depth,
    }
    wrong = [
        f"{key} {seen[key]} in place of {wanted[key]}" for key in wanted if seen[key] != wanted[key]
    ]
    if wrong:
        raise CheckpointError(f"{source} is not {entry.name}: {', '.join(wrong)}.")


def _frontend(
    asked: str | Frontend | None, options: Mapping[str, Any] | None, architecture: Architecture
) -> Frontend:
    depth = architecture.vision.depth
    if asked is None:
        asked = "sc-clip" if depth in ScClip.presets else "clip"
    if isinstance(asked, Frontend):
        frontend = replace(asked, **options) if options else asked
    else:
        frontend = make_frontend(asked, depth, options)
    frontend.check(depth, rotary_model=architecture.family == "eva02")
    return frontend


def _image_size(asked: int | tuple[int, int] | None, architecture: Architecture) -> tuple[int, int]:
    if asked is None:
        return architecture.image_size
    size = (asked, asked) if isinstance(asked, int) else tuple(asked)
    patch = architecture.patch
    if len(size) != 2 or any(not isinstance(s, int) or s < patch or s % patch for s in size):
        raise InputError(
            f"image_size={asked!r} does not divide into patches of {patch} x {patch}. Give a multiple "
            f"of {patch}, or (rows, columns) of such; the model was trained with "
            f"{architecture.image_size[0]}."
        )
    return size[0], size[1]


def _fill(architecture: Architecture, converted: Converted) -> ClipModel:
    state = dict(converted.state)
    state["vision.patch_embed.weight"] = state["vision.patch_embed.weight"].flatten(1)
    with torch.device("meta"):
        model = ClipModel(architecture)
    check_state(state, {name: tensor.shape for name, tensor in model.state_dict().items()})
    model.load_state_dict(state, assign=True)
    model.prepare()
    return model


def _device(asked: str | torch.device | None) -> torch.device:
    if asked is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(asked)
        if device.type == "meta":
            raise RuntimeError("a device without memory cannot compute")
        torch.empty(1, device=device)
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"device={asked!r} cannot be used here ({reason}). Use device='cpu', or leave it out."
        ) from None
    return device
