"""Which picture formats piaa reads, and recognizing one from its first bytes.

Pillow knows some forty formats. Those here are the ones photographs come in, each with a signature
of its own. The rest stay closed: formats without a signature would claim any stray file, and some
(EPS, for one) hand the file to an external program.
"""

from __future__ import annotations

import struct
from types import MappingProxyType
from typing import BinaryIO, Final

# Imported for the decoder each one registers, here rather than by Pillow on first use, so that
# threads never race to register them.
from PIL import (  # noqa: F401
    AvifImagePlugin,
    BmpImagePlugin,
    GifImagePlugin,
    Image,
    ImageFile,
    Jpeg2KImagePlugin,
    JpegImagePlugin,
    MpoImagePlugin,
    PngImagePlugin,
    PpmImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

FORMATS: Final = MappingProxyType(
    {
        "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo"),
        "PNG": (".png", ".apng"),
        "WEBP": (".webp",),
        "GIF": (".gif",),
        "TIFF": (".tif", ".tiff"),
        "BMP": (".bmp",),
        "AVIF": (".avif",),
        "JPEG2000": (".jp2", ".j2k", ".jpx"),
        "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
        # Read only once `pillow_heif.register_heif_opener()` was called, but always listed:
        # a telephone's photographs that are left out without a word are the worse surprise.
        "HEIF": (".heic", ".heif", ".hif"),
    }
)
"""Pillow's name of each format, and the suffixes its files have."""

SUFFIXES: Final = frozenset(suffix for suffixes in FORMATS.values() for suffix in suffixes)

_HEVC_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis")


class UnrecognizedFormatError(Exception):
    """The first bytes belong to no format of `FORMATS`, or to a header that cannot be parsed."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


def identify(file: BinaryIO) -> ImageFile.ImageFile:
    """Parse the header of a picture; no pixel is decoded.

    Unlike `PIL.Image.open` this neither warns about large pictures nor refuses them: the caller
    has a limit of its own, and Pillow's can only be changed for the whole process.
    """
    prefix = file.read(16)
    broken: list[str] = []
    for name in FORMATS:
        if name not in Image.OPEN:
            continue
        factory, accept = Image.OPEN[name]
        accepted = accept is None or accept(prefix)
        if isinstance(accepted, str):  # this build of Pillow lacks the decoder, and says so
            broken.append(accepted)
        elif accepted:
            file.seek(0)
            try:
                # No file name: given one, Pillow maps some formats into memory instead of
                # reading them, and a file cut short meanwhile would then kill the process.
                return factory(file, "")
            except (SyntaxError, IndexError, TypeError, KeyError, struct.error) as error:
                broken.append(f"it looks like {name}, but its header is damaged ({error})")
    if not prefix:
        raise UnrecognizedFormatError(
            "the file is empty (0 bytes)", "Copy or download it again, or leave it out."
        )
    if _is_heic(file):
        raise UnrecognizedFormatError(
            "it is a HEIC picture, which Pillow cannot read by itself",
            "Convert it to JPEG, or install pillow-heif and call "
            "pillow_heif.register_heif_opener() first.",
        )
    if broken:
        raise UnrecognizedFormatError(
            "; ".join(broken), "Copy or download the file again, or leave it out."
        )
    raise UnrecognizedFormatError(
        f"it is not a picture piaa reads (its first bytes are {prefix[:8]!r})",
        f"Accepted are {', '.join(FORMATS)}: convert it to one of these, or leave it out.",
    )


def _is_heic(file: BinaryIO) -> bool:
    """Whether the leading `ftyp` box names an HEVC brand (ISO/IEC 23008-12), anywhere in its list.

    The first brand alone may be one that HEIC and AVIF share.
    """
    if "HEIF" in Image.OPEN:  # it can be read, so what failed is this file
        return False
    file.seek(0)
    box = file.read(64)
    if box[4:8] != b"ftyp":
        return False
    end = int.from_bytes(box[:4], "big")
    return any(box[start : start + 4] in _HEVC_BRANDS for start in range(8, min(end, 64), 4))
