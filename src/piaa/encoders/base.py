"""What the rest of piaa knows of an encoder: the features it gives and where they came from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from piaa.errors import InputError
from piaa.images import ImageSource, OnError, Placement, Preprocessing, StoredImage


@dataclass(frozen=True)
class ImageFeatures:
    """Features of B images, float32 and of unit length.

    Attributes:
        cls: (B, D), one global vector an image.
        patches: (B, M, D), window by window, each row-major over `grid`.
        grid: (rows, columns) of the patches of one window, M = windows * rows * columns.
        placements: How each image lies on the encoder's canvas, if the features come from pictures;
            empty if they come from pixel tensors. B * windows of them, image by image.
        windows: Windows of an image whose patches are in its bag; more than 1 if it was tiled.
    """

    cls: Tensor
    patches: Tensor
    grid: tuple[int, int]
    placements: tuple[Placement, ...] = ()
    windows: int = 1

    def __post_init__(self) -> None:
        ok = (
            self.cls.dim() == 2
            and self.patches.dim() == 3
            and self.cls.shape[0] == self.patches.shape[0]
            and self.cls.shape[1] == self.patches.shape[2]
            and self.windows >= 1
            and self.patches.shape[1] == self.windows * self.grid[0] * self.grid[1]
            and len(self.placements) in (0, len(self.cls) * self.windows)
        )
        if not ok:
            raise InputError(
                "ImageFeatures needs cls (B, D), patches (B, windows * rows * columns, D) and "
                f"B * windows or no placements, not cls {tuple(self.cls.shape)}, patches "
                f"{tuple(self.patches.shape)}, grid {self.grid}, {self.windows} windows and "
                f"{len(self.placements)} placements."
            )

    def __len__(self) -> int:
        return len(self.cls)

    def __getitem__(self, rows: slice) -> ImageFeatures:
        """Some of the images, as views."""
        if not isinstance(rows, slice):
            raise InputError(f"Take images by a slice, such as features[0:1], not {rows!r}.")
        n = self.windows
        kept = range(len(self))[rows] if self.placements else ()
        placements = tuple(p for i in kept for p in self.placements[i * n : (i + 1) * n])
        return replace(self, cls=self.cls[rows], patches=self.patches[rows], placements=placements)

    @staticmethod
    def concatenate(parts: Sequence[ImageFeatures]) -> ImageFeatures:
        """One object from several of the same grid and windows, in order."""
        if not parts:
            raise InputError("There are no features to concatenate.")
        shapes = {(part.windows, *part.grid) for part in parts}
        if len(shapes) > 1:
            raise InputError(
                "Features of different grids or windows cannot be concatenated: (windows, rows, "
                f"columns) are {sorted(shapes)}. Encode all images with one encoder."
            )
        if len(parts) == 1:
            return parts[0]
        placements = tuple(p for part in parts for p in part.placements)
        total = sum(len(part) * part.windows for part in parts)
        return ImageFeatures(
            cls=torch.cat([part.cls for part in parts]),
            patches=torch.cat([part.patches for part in parts]),
            grid=parts[0].grid,
            placements=placements if len(placements) == total else (),
            windows=parts[0].windows,
        )


@dataclass(frozen=True)
class EncoderSpec:
    """Everything that makes two encoders give the same features; saved with fitted models.

    `tiles` holds the windows of a `TiledEncoder`, None for whole pictures. `model` holds what the
    weights do not show: `activation`, `head_width` and `norm_eps` of a CLIP.
    """

    name: str
    weights_sha256: str
    frontend: str
    frontend_options: dict[str, Any]
    preprocessing: Preprocessing
    precision: str
    dim: int
    tiles: dict[str, Any] | None = None
    model: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "preprocessing": self.preprocessing.to_dict()}

    def differences(self, other: Mapping[str, Any]) -> str:
        """What differs from another spec's `to_dict()`, as text that gives both values; "" if nothing.

        Names do not count where the weights are the same: a file may have been renamed.
        """
        mine = json.loads(json.dumps(self.to_dict()))  # tuples become lists, as in a file
        theirs = json.loads(json.dumps(dict(other)))
        keys = [key for key in mine | theirs if mine.get(key) != theirs.get(key)]
        if "weights_sha256" not in keys and "name" in keys:
            keys.remove("name")
        return "; ".join(
            f"{key}: {theirs.get(key)!r} there, {mine.get(key)!r} here" for key in keys
        )


@runtime_checkable
class Encoder(Protocol):
    """Turns pictures and words into unit vectors of one space."""

    @property
    def spec(self) -> EncoderSpec: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def source(self) -> str:
        """Where the weights came from, as `load_encoder(weights=...)` takes it."""

    @property
    def prompt_template(self) -> str:
        """The sentence around a class's name that suits the text side; {} is the name."""

    @property
    def text_scale(self) -> float:
        """Softmax scale of image-text cosines at which the odds of classes mean something."""

    def encode_images(
        self, images: Iterable[ImageSource], *, batch_size: int | None = None
    ) -> ImageFeatures: ...

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        """Batch by batch, in order. With `on_error`, pictures that cannot be read are left out and
        on_error(index, source, error) is called, before any later picture is handed out and after
        all full batches of earlier ones; see `piaa.images.read_batches`."""

    def encode_pixels(self, pixels: Tensor) -> ImageFeatures: ...

    def encode_text(self, texts: Sequence[str]) -> Tensor: ...


def encode_at_once(
    encoder: Encoder, images: ImageSource | Iterable[ImageSource], batch_size: int | None
) -> ImageFeatures:
    """What an encoder streams, as one object. A single picture need not be in a list."""
    if isinstance(images, str | os.PathLike | StoredImage | Image.Image | np.ndarray):
        images = [images]
    parts = list(encoder.stream_images(images, batch_size=batch_size))
    if not parts:
        raise InputError("There are no images to encode: the list is empty.")
    return ImageFeatures.concatenate(parts)
