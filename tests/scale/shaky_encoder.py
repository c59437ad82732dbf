"""An encoder that is like real ones in what matters here: its last bits depend on the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor
from torch.nn.functional import normalize

from fake_encoder import CLASSES, SMALL_BANKS, ColorEncoder, pictures
from piaa import Recognizer
from piaa.encoders.base import ImageFeatures


class ShakyEncoder(ColorEncoder):
    """Real ones change by 1e-7 with the batch; this one by 1e-3, so that no rounding hides it."""

    def __init__(self) -> None:
        super().__init__(sha256="5" * 64)
        self.n_encoded = 0

    def encode_pixels(self, pixels: Tensor) -> ImageFeatures:
        self.n_encoded += len(pixels)
        features = super().encode_pixels(pixels)
        noise = 1e-3 * features.patches.mean((0, 1)) * len(pixels)
        return replace(features, patches=normalize(features.patches + noise, dim=-1))


class OtherThreads(ShakyEncoder):
    """The same with other text vectors in their last bits, as another number of threads may give."""

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        return normalize(super().encode_text(texts) + 1e-6, dim=-1)


def shaky_recognizer() -> Recognizer:
    return Recognizer(ShakyEncoder(), CLASSES, config=SMALL_BANKS)


def save_pictures(folder: Path, count: int) -> list[Path]:
    """Pictures of colored squares: 000.png, 001.png..."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:03d}.png" for number in range(count)]
    for path, picture in zip(paths, pictures(count), strict=True):
        picture.save(path)
    return paths
