from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import piaa
from piaa import Recognizer
from piaa.encoders.clip import ClipEncoder
from piaa.errors import ArtifactError
from piaa.images import Tiles

pytestmark = pytest.mark.filterwarnings("ignore::piaa.fitting.fit_report.EvidenceWarning")


class TestReloading:
    @pytest.fixture
    def images(self) -> list[Image.Image]:
        rng = np.random.default_rng(0)
        return [
            Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8)) for _ in range(3)
        ]

    @pytest.mark.parametrize(
        "options",
        [
            {"activation": "gelu", "frontend": "clip", "fit": "pad", "image_size": 64},
            {"activation": "quick_gelu", "head_width": 32, "image_size": (64, 96)},
        ],
    )
    def test_the_encoder_as_it_was(
        self, options: Any, clip_file: Path, tmp_path: Path, images: list[Image.Image]
    ) -> None:
        encoder = piaa.load_encoder(weights=clip_file, **options)
        recognizer = Recognizer(encoder, ["cat", "dog"], tiles=Tiles(1, 2))
        recognizer.fit(images)
        recognizer.save(tmp_path / "model")
        loaded = Recognizer.load(tmp_path / "model")
        assert loaded.encoder.spec == recognizer.encoder.spec
        for one, other in zip(loaded.predict(images), recognizer.predict(images), strict=True):
            assert torch.equal(one.scores, other.scores)

    def test_another_activation_is_another_encoder(
        self, load: Callable[..., ClipEncoder], clip_file: Path, tmp_path: Path
    ) -> None:
        Recognizer(load("clip"), ["cat", "dog"]).save(tmp_path / "model")
        other = piaa.load_encoder(weights=clip_file, activation="gelu")
        with pytest.raises(ArtifactError, match=r"model: .*'quick_gelu'.* there, .*'gelu'.* here"):
            Recognizer.load(tmp_path / "model", other)

    def test_weights_that_are_gone_or_changed(self, clip_file: Path, tmp_path: Path) -> None:
        weights, model = tmp_path / "weights.safetensors", tmp_path / "model"
        shutil.copy(clip_file, weights)
        encoder = piaa.load_encoder(weights=weights, activation="quick_gelu")
        Recognizer(encoder, ["cat", "dog"]).save(model)
        with weights.open("r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\1\2\3\4")
        with pytest.raises(ArtifactError, match=r"weights_sha256: '.*' there, '.*' here"):
            Recognizer.load(model)
        weights.unlink()
        with pytest.raises(
            ArtifactError, match=r"encoder of .*weights\.safetensors.*cannot be load"
        ):
            Recognizer.load(model)
        moved = piaa.load_encoder(weights=clip_file, activation="quick_gelu")
        assert Recognizer.load(model, moved).classes.names == ("cat", "dog")
