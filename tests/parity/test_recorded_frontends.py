"""Every front-end against what its published implementation gives for the same weights and pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.clip import ClipEncoder
from recipe import pixels, tokens

DATA = Path(__file__).parents[1] / "data"
RECORDED = {
    "clip": ("frontends_b16_seed7.npz", 8, ["clip", "sclip", "itaclip", "sc-clip"]),
    "eva": ("eva_b16_seed21.npz", 22, ["clip"]),
}


def recorded(family: str, key: str) -> Tensor:
    with np.load(DATA / RECORDED[family][0]) as arrays:
        return torch.from_numpy(arrays[key])


@pytest.mark.parametrize(
    ("family", "frontend"),
    [(family, name) for family, (_, _, names) in RECORDED.items() for name in names],
)
def test_patches_and_cls_before_normalization(
    load: Callable[..., ClipEncoder], family: str, frontend: str
) -> None:
    expected = recorded(family, frontend)
    encoder = load(family, frontend=frontend)
    with torch.no_grad():
        cls, patches, grid = encoder.vision(
            pixels(RECORDED[family][1], len(expected)), encoder.frontend
        )
    assert grid == (14, 14)
    torch.testing.assert_close(patches, expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(cls, recorded(family, "cls"), atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", RECORDED)
def test_public_features_are_the_recorded_ones_at_unit_length(
    load: Callable[..., ClipEncoder], family: str
) -> None:
    encoder = load(family, frontend="clip")
    expected = recorded(family, "clip")
    features = encoder.encode_pixels(pixels(RECORDED[family][1], len(expected)))
    torch.testing.assert_close(features.patches, F.normalize(expected, dim=-1), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        features.cls, F.normalize(recorded(family, "cls"), dim=-1), atol=1e-5, rtol=0
    )
    assert features.cls.dtype == features.patches.dtype == torch.float32


@pytest.mark.parametrize("family", RECORDED)
def test_text(load: Callable[..., ClipEncoder], family: str) -> None:
    encoder = load(family, frontend="clip")
    expected = F.normalize(recorded(family, "text"), dim=-1)
    torch.testing.assert_close(encoder.encode_tokens(tokens()), expected, atol=1e-5, rtol=0)
    words = encoder.encode_text(["a photo of a cat", "a photo of a dog"])
    torch.testing.assert_close(words, expected, atol=1e-5, rtol=0)
