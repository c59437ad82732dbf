"""Random CLIPModels of several sizes, saved by transformers, give the same vectors in piaa."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import piaa
from recipe import pixels, tokens

transformers = pytest.importorskip("transformers")

SIZES = {
    "tiny": {
        "width": 64,
        "depth": 2,
        "heads": 1,
        "patch": 8,
        "side": 32,
        "dim": 24,
        "act": "quick_gelu",
    },
    "odd heads": {
        "width": 96,
        "depth": 3,
        "heads": 4,
        "patch": 16,
        "side": 64,
        "dim": 40,
        "act": "gelu",
    },
    "wide": {
        "width": 256,
        "depth": 4,
        "heads": 4,
        "patch": 14,
        "side": 56,
        "dim": 96,
        "act": "quick_gelu",
    },
}


@pytest.fixture(params=SIZES, scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    size = SIZES[request.param]
    shape = {
        "hidden_size": size["width"],
        "intermediate_size": 3 * size["width"],
        "num_hidden_layers": size["depth"],
        "num_attention_heads": size["heads"],
        "hidden_act": size["act"],
        "projection_dim": size["dim"],
    }
    config = transformers.CLIPConfig(
        vision_config={**shape, "image_size": size["side"], "patch_size": size["patch"]},
        text_config={**shape, "vocab_size": 49408},
        projection_dim=size["dim"],
    )
    torch.manual_seed(5)
    model = transformers.CLIPModel(config).eval()
    for parameter in model.parameters():  # the initial norms and biases are all ones and zeros
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    folder: Path = tmp_path_factory.mktemp("saved")
    model.save_pretrained(folder)
    return model, piaa.load_encoder(weights=folder, frontend="clip"), size["side"]


def test_cls_and_patches(pair) -> None:
    model, encoder, side = pair
    images = pixels(3, 4, side, side)
    with torch.no_grad():
        cls = F.normalize(model.get_image_features(pixel_values=images).pooler_output, dim=-1)
        hidden = model.vision_model(pixel_values=images).last_hidden_state[:, 1:]
        tokens_out = model.visual_projection(model.vision_model.post_layernorm(hidden))
    features = encoder.encode_pixels(images)
    torch.testing.assert_close(features.cls, cls, atol=1e-4, rtol=0)
    torch.testing.assert_close(features.patches, F.normalize(tokens_out, dim=-1), atol=1e-4, rtol=0)


def test_text(pair) -> None:
    model, encoder, _ = pair
    ids = tokens()
    with torch.no_grad():
        text = F.normalize(model.get_text_features(input_ids=ids).pooler_output, dim=-1)
    torch.testing.assert_close(encoder.encode_tokens(ids), text, atol=1e-4, rtol=0)


def test_architecture_is_read_from_the_files(pair) -> None:
    model, encoder, side = pair
    config = model.config
    assert encoder.architecture.vision.heads == config.vision_config.num_attention_heads
    assert encoder.architecture.activation == config.text_config.hidden_act
    assert encoder.architecture.image_size == (side, side)
    assert encoder.dim == config.projection_dim
