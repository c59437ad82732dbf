"""A picture -> the pixels a network was trained on: scaled, cut or padded, normalized."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from piaa.errors import InputError, UnknownNameError
from piaa.images.placement import Fit, Placement, Scaling, Size, place, scaling

Resize: TypeAlias = Literal["pillow", "torch"]
Color: TypeAlias = tuple[float, float, float]

CLIP_MEAN: Final[Color] = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD: Final[Color] = (0.26862954, 0.26130258, 0.27577711)

# From this many times the canvas on, scaling the whole picture only to cut most of it off is
# to be avoided: a 1 x 5000 picture covering 224 x 224 would grow to 224 x 1,120,000.
_THIN = 16

# Copying a whole large picture out of Pillow costs more than resizing it: allocations of this size
# come as fresh pages from the system each time. Bands of it reuse the same few.
_LARGE_BYTES = 32 * 2**20
_BAND_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Preprocessing:
    """What is done to a picture before a network sees it; it travels with the network's weights.

    Attributes:
        image_size: (rows, columns) of the canvas; one int means a square.
        mean, std: of each of R, G, B in 0..1; pixels become (pixel / 255 - mean) / std.
        fit: "crop" scales the picture to cover the canvas and cuts off what sticks out, equally
            on both sides (CLIP's way); "squash" scales both sides to the canvas; "pad" scales the
            picture to fit inside and fills the rest with the mean color, exactly 0 normalized.
        resize: "pillow", bicubic, as CLIP was evaluated; or "torch", its antialiased bicubic,
            about twice as fast (benchmarks/resize.py) and within 2 of 255 levels. The crop of a
            picture more than 16 times as long as wide is always Pillow's.

    >>> Preprocessing(224).image_size
    (224, 224)
    """

    image_size: Size
    mean: Color = CLIP_MEAN
    std: Color = CLIP_STD
    fit: Fit = "crop"
    resize: Resize = "pillow"

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_size", as_image_size(self.image_size))
        object.__setattr__(self, "mean", _as_color("mean", self.mean))
        object.__setattr__(self, "std", _as_color("std", self.std))
        if min(self.std) <= 0:
            raise InputError(f"std must be above 0 in each of R, G, B, not {self.std}.")
        if self.fit not in get_args(Fit):
            raise UnknownNameError("fit", self.fit, get_args(Fit))
        if self.resize not in get_args(Resize):
            raise UnknownNameError("resize", self.resize, get_args(Resize))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` gives an equal object back."""
        return {
            "image_size": list(self.image_size),
            "mean": list(self.mean),
            "std": list(self.std),
            "fit": self.fit,
            "resize": self.resize,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise UnknownNameError("preprocessing setting", key, known)
        if "image_size" not in values:
            raise InputError(f"Preprocessing needs 'image_size'; given are {sorted(values)}.")
        return cls(**values)


def as_image_size(size: int | Sequence[int]) -> Size:
    """One side of a square, or (rows, columns), as (rows, columns).

    >>> as_image_size(336), as_image_size([224, 320])
    ((336, 336), (224, 320))
    """
    sides = (size, size) if isinstance(size, int) else size
    if (
        not isinstance(sides, Sequence)
        or len(sides) != 2
        or any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides)
    ):
        raise InputError(
            f"image_size must be a whole number of pixels of at least 1, or two of them "
            f"(rows, columns), not {size!r}."
        )
    return sides[0], sides[1]


def _as_color(name: str, values: object) -> Color:
    if (
        not isinstance(values, Sequence)
        or len(values) != 3
        or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values)
        or not all(math.isfinite(v) for v in values)
    ):
        raise InputError(f"{name} must be three finite numbers for R, G, B, not {values!r}.")
    return float(values[0]), float(values[1]), float(values[2])


def preprocess(image: Image.Image, preprocessing: Preprocessing) -> tuple[torch.Tensor, Placement]:
    """Lay an RGB picture (of `open_image`) on the canvas and normalize it.

    Returns:
        (3, rows, columns) float32, and where on the canvas the picture went.
    """
    pixels, placement = fit_pixels(image, preprocessing)
    # By numpy, which stays in the calling thread. Torch would set a team of threads to work for each
    # thread that decodes, and those would take the cores from the network.
    normalized = np.empty(pixels.shape, np.float32)
    colors = zip(preprocessing.mean, preprocessing.std, strict=True)
    for channel, plane, (mean, std) in zip(pixels.numpy(), normalized, colors, strict=True):
        np.divide(channel, np.float32(255), out=plane)
        plane -= np.float32(mean)
        plane /= np.float32(std)
    canvas = torch.from_numpy(normalized)
    _clear_padding(canvas, placement)
    return canvas, placement


def fit_pixels(image: Image.Image, preprocessing: Preprocessing) -> tuple[torch.Tensor, Placement]:
    """Lay an RGB picture on the canvas: (3, rows, columns) uint8; padding is 0 here."""
    if image.mode != "RGB":
        raise InputError(
            f"The picture must have mode RGB, not {image.mode}. Open it with "
            "piaa.images.open_image, which also turns it upright."
        )
    if image.width * image.height == 0:
        raise InputError(f"The picture has no pixels: {image.width} x {image.height}.")
    canvas_size, fit = preprocessing.image_size, preprocessing.fit
    original_size = (image.height, image.width)
    placement = place(original_size, canvas_size, fit)
    geometry = scaling(original_size, canvas_size, fit)
    thin = math.prod(geometry.size) > _THIN * math.prod(canvas_size)
    if preprocessing.resize == "torch" and not thin:
        shown = _resize_with_torch(image, geometry, canvas_size)
    else:
        shown = _resize_with_pillow(image, geometry, placement)
    if shown.shape[1:] == canvas_size:
        return shown, placement
    top, left, bottom, right = placement.content
    canvas = torch.zeros(3, *canvas_size, dtype=torch.uint8)
    canvas[:, top:bottom, left:right] = shown
    return canvas, placement


def normalize_pixels(
    pixels: torch.Tensor, placements: Iterable[Placement], preprocessing: Preprocessing
) -> torch.Tensor:
    """(B, 3, rows, columns) uint8 to float32 (pixels / 255 - mean) / std, padding to exactly 0."""
    mean = torch.tensor(preprocessing.mean, device=pixels.device).view(3, 1, 1)
    std = torch.tensor(preprocessing.std, device=pixels.device).view(3, 1, 1)
    normalized = pixels.to(torch.float32, memory_format=torch.contiguous_format)
    normalized.div_(255).sub_(mean).div_(std)
    for canvas, placement in zip(normalized, placements, strict=True):
        _clear_padding(canvas, placement)
    return normalized


def _clear_padding(canvas: torch.Tensor, placement: Placement) -> None:
    """Set what the picture does not cover to exactly 0, the mean color."""
    top, left, bottom, right = placement.content
    canvas[:, :top] = 0
    canvas[:, bottom:] = 0
    canvas[:, :, :left] = 0
    canvas[:, :, right:] = 0


def _resize_with_pillow(
    image: Image.Image, geometry: Scaling, placement: Placement
) -> torch.Tensor:
    """The shown part of the scaled picture, (3, rows, columns) uint8.

    Columns first, then rows: up to version 12 Pillow did so itself, from 13 on the shape decides,
    and as samples are clipped to 0..255 in between, edges come out some levels different. One
    axis at a time gives the same pixels with every version, and does not scale what is cut off.
    """
    (rows, columns), (row, column) = geometry
    height, width = placement.canvas_size
    bicubic = Image.Resampling.BICUBIC
    shown = image.resize((columns, image.height), bicubic)
    if columns > width:
        shown = shown.crop((column, 0, column + width, shown.height))
    if rows > _THIN * height:
        # The same rows, computed for the canvas only. Pillow keeps the box in single precision,
        # which moves some samples by one level: hence not for every picture.
        box = (0, placement.box[0], shown.width, placement.box[2])
        return _to_tensor(shown.resize((shown.width, height), bicubic, box=box))[0]
    shown = shown.resize((shown.width, rows), bicubic)
    if rows > height:
        shown = shown.crop((0, row, shown.width, row + height))
    return _to_tensor(shown)[0]


def _resize_with_torch(image: Image.Image, geometry: Scaling, canvas_size: Size) -> torch.Tensor:
    """As `_resize_with_pillow`, with torch's antialiased bicubic; columns first here too."""
    (rows, columns), offset = geometry
    if 3 * image.width * image.height > _LARGE_BYTES:
        step = max(1, _BAND_BYTES // (3 * image.width))
        bands = (
            _to_tensor(image.crop((0, top, image.width, min(top + step, image.height))))
            for top in range(0, image.height, step)
        )
        pixels = torch.cat([_interpolate(band, (band.shape[2], columns)) for band in bands], dim=2)
    else:
        pixels = _to_tensor(image)
    pixels = _interpolate(pixels, (rows, columns))[0]
    top, left = max(0, offset[0]), max(0, offset[1])
    return pixels[:, top : top + canvas_size[0], left : left + canvas_size[1]]


def _to_tensor(image: Image.Image) -> torch.Tensor:
    """(1, 3, rows, columns) uint8, channels last in memory, the layout torch resizes fastest."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]


def _interpolate(pixels: torch.Tensor, size: Size) -> torch.Tensor:
    return F.interpolate(pixels, size=size, mode="bicubic", antialias=True)
