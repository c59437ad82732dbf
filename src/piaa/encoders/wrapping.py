"""What encoders around another encoder share: they answer for the one inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from piaa.encoders.base import Encoder, EncoderSpec, ImageFeatures, encode_at_once
from piaa.images import ImageSource, OnError


class WrappedEncoder(ABC):
    """An encoder that is the one inside but for what a subclass changes; `stream_images` is its own."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder

    @property
    def spec(self) -> EncoderSpec:
        return self.encoder.spec

    @property
    def device(self) -> torch.device:
        return self.encoder.device

    @property
    def source(self) -> str:
        return self.encoder.source

    @property
    def prompt_template(self) -> str:
        return self.encoder.prompt_template

    @property
    def text_scale(self) -> float:
        return self.encoder.text_scale

    def encode_text(self, texts: Sequence[str]) -> Tensor:
        return self.encoder.encode_text(texts)

    def encode_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> ImageFeatures:
        """Features of pictures: paths, PIL images or uint8 arrays (H, W, 3), in order.

        The first picture that cannot be read raises an `ImageError` that names it.
        """
        return encode_at_once(self, images, batch_size)

    def encode_pixels(self, pixels: Tensor) -> ImageFeatures:
        return self.encoder.encode_pixels(pixels)

    @abstractmethod
    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        """As any encoder's."""
