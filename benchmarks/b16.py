"""An encoder of ViT-B/16 size with random weights: what all shares of encoding refer to."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

import piaa
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.synthetic import synthetic_checkpoint


def random_encoder(frontend: str = "sc-clip", **options: str) -> ClipEncoder:
    """ViT-B/16 size on the CPU; options are those of `load_encoder`, such as precision."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random.safetensors"
        save_file(synthetic_checkpoint(text_depth=1), path)
        encoder = piaa.load_encoder(weights=path, frontend=frontend, device="cpu", **options)
    if not isinstance(encoder, ClipEncoder):
        raise TypeError(f"a CLIP encoder was expected, got {type(encoder).__name__}")
    return encoder


def encoding_run(batch: int = 8, frontend: str = "sc-clip") -> Callable[[], object]:
    """A call that encodes `batch` images of 224 x 224 pixels, for `machine.in_turns`."""
    encoder, pixels = random_encoder(frontend), torch.randn(batch, 3, 224, 224)
    return lambda: encoder.encode_pixels(pixels)
