"""Any Pillow mode to 8-bit RGB, the way a picture viewer would show it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

# Numbers Pillow's own conversion would clip to 0..255, turning nearly all of them white.
_HIGH_DEPTH_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")

_SAMPLES_AT_ONCE = 2**16


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert a decoded picture of any mode to mode RGB; RGB without a key color comes back as is.

    Transparency is laid over white. Embedded color profiles are not applied: CLIP's own
    preprocessing ignores them too. Raises ValueError for samples that are not finite.
    """
    if image.mode in _HIGH_DEPTH_MODES:
        return Image.fromarray(_to_8_bit(image)).convert("RGB")
    if image.has_transparency_data:
        straight = image.convert("LA") if image.mode == "La" else image  # La converts to LA only
        rgba = straight.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _to_8_bit(image: Image.Image) -> npt.NDArray[np.uint8]:
    """Grey samples of more than 8 bits to (rows, columns) uint8.

    The I;16 family has a defined range, 0..65535. Modes I and F have none: samples are read in the
    smallest usual range that holds them all (F: 0..1; both: 0..255, 0..65535) and stretched
    from the least to the greatest where none does.
    """
    samples = np.asarray(image)
    if image.mode.startswith("I;16"):
        grey: npt.NDArray[np.uint8] = _scale(np.arange(65536), 0.0, 65535.0)[samples]
        key = image.info.get("transparency")
        if isinstance(key, int):  # a PNG's key color: those samples are transparent
            grey[samples == key] = 255
        return grey
    low, high = float(samples.min()), float(samples.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError("it holds samples that are not finite (NaN or infinity)")
    tops = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
    for top in tops:
        if low >= 0 and high <= top:
            return _scale(samples, 0.0, top)
    return _scale(samples, low, max(high, low + 1))  # samples that are all the same become black


def _scale(samples: npt.NDArray[np.generic], low: float, high: float) -> npt.NDArray[np.uint8]:
    scaled = np.empty(samples.shape, np.uint8)
    step = max(1, _SAMPLES_AT_ONCE // samples[:1].size)
    for start in range(0, len(samples), step):
        # float64: the span of int32 or float32 samples can exceed the range of their own type.
        unit = (samples[start : start + step].astype(np.float64) - low) / (high - low)
        scaled[start : start + step] = np.rint(unit * 255)
    return scaled
