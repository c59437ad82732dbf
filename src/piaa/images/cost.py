"""What a picture costs to decode, told from its header: a few bytes can claim a great many pixels.

Measured on blank pictures, which pack best, a pixel of the formats here takes up to six times the time and
four times the memory of one of a plain JPEG (4 ns and 4 bytes, as much again to turn it). Weighed so,
110 million pixels take about a second at most, and less than a gibibyte, in every format.
"""

from __future__ import annotations

from typing import Final

from PIL import ImageFile

_OF_FORMAT: Final = {"WEBP": 3.0, "AVIF": 2.0, "HEIF": 2.0, "JPEG2000": 6.0}
_PLAIN_MODES: Final = ("1", "L", "P", "RGB")
# The decoder goes over the whole picture for every scan of a progressive JPEG, be it empty: 190 kB of
# them took 15 s. Files that programs write have about ten.
_SCANS_LIKE_A_PIXEL: Final = 8
_START_OF_SCAN: Final = b"\xff\xda"
_PART: Final = 2**20


def pixel_weight(image: ImageFile.ImageFile) -> float:
    """How many pixels of a plain JPEG one of this opened, not yet decoded picture counts for."""
    weight = _OF_FORMAT.get(image.format or "", 1.0)
    if image.mode in ("I", "F"):
        weight += 3.0
    elif image.mode not in _PLAIN_MODES or image.has_transparency_data:
        weight += 2.0
    if image.info.get("progressive"):
        weight += _count_scans(image) / _SCANS_LIKE_A_PIXEL
    return weight


def _count_scans(image: ImageFile.ImageFile) -> int:
    """At least as many as there are: a thumbnail's in the metadata count too."""
    file, count, last = image.fp, 0, b""
    if file is None:
        return 0
    place = file.tell()
    file.seek(0)
    while part := file.read(_PART):
        # In compressed data a byte ff is followed by a zero or a marker, so these two are a marker.
        count += (last + part).count(_START_OF_SCAN)
        last = part[-1:]
    file.seek(place)
    return count
