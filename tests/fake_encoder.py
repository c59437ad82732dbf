"""Encoders without a network, for worlds whose answers are known.

`ColorEncoder` sees colors: the vector of a patch says which of a few named colors it shows, and a
color's name has nearly the same vector. `FeatureEncoder` knows words alone; its images are given
as features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import avg_pool2d, normalize

from piaa import Config, Recognizer
from piaa.encoders.base import EncoderSpec, ImageFeatures
from piaa.errors import InputError
from piaa.images import ImageSource, OnError, Preprocessing, read_batches
from piaa.images.placement import Fit, Size
from worlds import World

COLORS = {
    "black": (0, 0, 0),
    "red": (255, 0, 0),
    "green": (0, 255, 0),
    "blue": (0, 0, 255),
    "yellow": (255, 255, 0),
    "cyan": (0, 255, 255),
    "magenta": (255, 0, 255),
    "white": (255, 255, 255),
}
DIM = 16
PATCH = 8


class ColorEncoder:
    """Patches of 8 x 8 pixels; numbers 0 to 7 of a vector are the named colors, the rest is hue."""

    device = torch.device("cpu")
    source, prompt_template, text_scale = "nowhere", "a photo of a {}", 20.0

    def __init__(
        self, *, canvas: Size = (64, 64), fit: Fit = "crop", sha256: str = "0" * 64
    ) -> None:
        preprocessing = Preprocessing(canvas, mean=(0, 0, 0), std=(1, 1, 1), fit=fit)
        self.spec = EncoderSpec("colors", sha256, "none", {}, preprocessing, "float32", DIM)

    def encode_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> ImageFeatures:
        return ImageFeatures.concatenate(list(self.stream_images(images, batch_size=batch_size)))

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        size, canvas = 4 if batch_size is None else batch_size, self.spec.preprocessing
        for batch in read_batches(images, canvas, batch_size=size, workers=1, on_error=on_error):
            features = self.encode_pixels(batch.pixels)
            yield ImageFeatures(features.cls, features.patches, features.grid, batch.placements)

    def encode_pixels(self, pixels: Tensor) -> ImageFeatures:
        colors = avg_pool2d(pixels.double(), PATCH)
        rows, columns = colors.shape[2:]
        colors = colors.flatten(2).transpose(1, 2)
        named = torch.tensor(list(COLORS.values()), dtype=torch.float64) / 255
        near = (-8 * (colors[:, :, None] - named).square().sum(-1)).softmax(-1)
        hue = (colors @ _directions(3, DIM - len(COLORS))) * 0.3
        patches = normalize(torch.cat([near, hue], -1), dim=-1)
        # Weights by place, so that the same patches elsewhere are another image.
        place = torch.linspace(0.5, 1.5, rows * columns, dtype=torch.float64)[:, None]
        cls = normalize((patches * place).mean(1), dim=-1)
        return ImageFeatures(cls.float(), patches.float(), (rows, columns))

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """The direction of the last word: a color's own, with some noise; any other word's noise."""
        vectors = [_noise(text) * 0.3 + self._direction(text.split()[-1]) for text in texts]
        return normalize(torch.stack(vectors), dim=-1).float()

    @staticmethod
    def _direction(word: str) -> Tensor:
        place = list(COLORS).index(word) if word in COLORS else DIM - 1
        return torch.eye(DIM, dtype=torch.float64)[place]


class FeatureEncoder:
    """Has a vector for each of some words, noise for all others, and no eyes."""

    device = torch.device("cpu")
    source, prompt_template, text_scale = "nowhere", "{}", 100.0

    def __init__(self, words: Mapping[str, Tensor], *, sha256: str = "1" * 64) -> None:
        self.words = dict(words)
        dim = len(next(iter(self.words.values())))
        self.spec = EncoderSpec(
            "words", sha256, "none", {}, Preprocessing((32, 32)), "float32", dim
        )

    def encode_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> NoReturn:
        raise InputError("This encoder has no eyes; give it features.")

    def stream_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> Iterator[ImageFeatures]:
        self.encode_images(images)

    def encode_pixels(self, pixels: Tensor) -> NoReturn:
        self.encode_images([])

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        dim = self.spec.dim
        return torch.stack([self.words[t] if t in self.words else _noise(t, dim) for t in texts])


def names_of(world: World) -> list[str]:
    return [f"{chr(97 + c)}-thing" for c in range(len(world.text))]


def recognizer_of(world: World, config: Config | None = None) -> Recognizer:
    """A recognizer of a world's classes, not fitted."""
    names = names_of(world)
    encoder = FeatureEncoder(dict(zip(names, world.text, strict=True)))
    return Recognizer(encoder, names, config=config, others=None)


def features_of(
    world: World, images: Sequence[int] | Tensor | slice = slice(None)
) -> ImageFeatures:
    """Some of a world's images; patches in one row."""
    return ImageFeatures(world.cls[images], world.patches[images], (1, world.patches.shape[1]))


def squares(seed: int, colors: Sequence[str], *, size: Size = (64, 64)) -> Image.Image:
    """A dark, noisy picture with a square of each color, side by side at random heights."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 60, (*size, 3), dtype=np.uint8)
    width = size[1] // max(1, len(colors))
    side = min(size[0] // 2, width)
    for place, color in enumerate(colors):
        top = rng.integers(0, size[0] - side + 1)
        left = place * width + rng.integers(0, width - side + 1)
        pixels[top : top + side, left : left + side] = COLORS[color]
    return Image.fromarray(pixels)


def _directions(rows: int, columns: int) -> Tensor:
    rng = np.random.RandomState(5)
    return normalize(torch.from_numpy(rng.standard_normal((rows, columns))), dim=-1)


def _noise(text: str, dim: int = DIM) -> Tensor:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
    return normalize(torch.from_numpy(np.random.RandomState(seed).standard_normal(dim)), dim=0)


CLASSES = ["red", "green", "blue"]
SMALL_BANKS = Config(bank_size=8, bank_floor=8)


def pictures(count: int = 12) -> list[Image.Image]:
    """Colored squares, one or two colors a picture."""
    kinds = (["red"], ["green"], ["blue"], ["red", "blue"], ["green", "red"])
    return [squares(i, kinds[i % len(kinds)]) for i in range(count)]
