"""A file, a Pillow image or an array -> one upright, decoded RGB picture."""

from __future__ import annotations

import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image

from piaa.errors import ImageError, InputError
from piaa.images.color import to_rgb
from piaa.images.cost import pixel_weight
from piaa.images.formats import UnrecognizedFormatError, identify


@dataclass(frozen=True)
class StoredImage:
    """A picture that is no local file: a member of an archive, a row of a table, an object far away.

    `read` gives its bytes, in one of the threads that decode; it raises an OSError or `ImageError`
    if it cannot.
    """

    name: str
    read: Callable[[], bytes]


ImageSource: TypeAlias = str | os.PathLike[str] | StoredImage | Image.Image | npt.NDArray[np.uint8]
"""A path, a `StoredImage`, a Pillow image, or a uint8 array (rows, columns[, 3 or 4]) of grey, RGB
or RGBA."""

MAX_PIXELS: Final = 110_000_000
"""Default limit on rows x columns, weighed by what a pixel of the format costs to decode."""

_UPRIGHT: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# A lazily opened picture that is handed in twice must not be decoded by two threads at once.
_callers_image_lock = threading.Lock()
_pillow_limit_lock = threading.Lock()


def open_image(source: ImageSource, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open a picture as it would be looked at: decoded, upright (EXIF), mode RGB.

    The first frame of an animated file is taken, or the frame a Pillow image stands at. The
    source is never changed, and the result shares no memory with it. Safe to call from threads.

    Args:
        source: a path, a `StoredImage`, a Pillow image of any mode, or a uint8 array (rows,
            columns), (rows, columns, 3) or (rows, columns, 4).
        max_pixels: refuse more than this many pixels before any is decoded, so that a small file
            which claims to be huge cannot use up time and memory. Pixels of a file that cost more
            than a plain JPEG's count for more (WebP 3, JPEG 2000 6; see `piaa.images.cost`).

    Raises:
        ImageError: the picture cannot be read; the message names it and says why.
        InputError: the source is of another type, or an array of another dtype or shape.

    >>> image = open_image(np.zeros((2, 3), dtype=np.uint8))
    >>> image.mode, image.size
    ('RGB', (3, 2))
    """
    if isinstance(max_pixels, bool) or not isinstance(max_pixels, int) or max_pixels < 1:
        raise InputError(f"max_pixels must be a whole number of at least 1, not {max_pixels!r}.")
    name = describe_source(source)
    if isinstance(source, np.ndarray):
        image = _from_array(source)
        _check_size(image, name, max_pixels)
    elif isinstance(source, Image.Image):
        _check_size(source, name, max_pixels)
        try:
            with _callers_image_lock:
                image = source.copy()
        except Exception as error:
            _fail_decoding(name, error)
    elif isinstance(source, StoredImage):
        image = _decode(BytesIO(read_bytes(source)), name, max_pixels)
    else:
        with _open_file(source, name) as file:
            image = _decode(file, name, max_pixels)
    try:
        image = to_rgb(_upright(image))
    except Exception as error:
        _fail_decoding(name, error)
    # The orientation and the key color are applied; left here, they would be applied twice if the
    # result were opened again.
    image.info = {}
    return image


def read_bytes(source: str | os.PathLike[str] | StoredImage) -> bytes:
    """All bytes of a picture, not decoded; `open_image` takes them as a `StoredImage`.

    Raises:
        ImageError: as `open_image` does for a source that cannot be read.
    """
    name = describe_source(source)
    try:
        if isinstance(source, StoredImage):
            return source.read()
        with _open_file(source, name) as file:
            return file.read()
    except OSError as error:
        raise image_error(name, f"it cannot be read ({error})", "Try again later.") from error


def source_name(source: object) -> str | None:
    """The path or name of a picture as it was given; None for one that has none."""
    if isinstance(source, StoredImage):
        return source.name
    return os.fspath(source) if isinstance(source, str | os.PathLike) else None


def describe_source(source: object) -> str:
    """Name a source in a message."""
    if isinstance(source, StoredImage):
        return repr(source.name)
    if isinstance(source, Image.Image):
        origin = getattr(source, "filename", "")
        from_file = f" from {os.fspath(origin)!r}" if origin else ""
        return f"<Pillow image {source.mode} {source.width}x{source.height}{from_file}>"
    if isinstance(source, np.ndarray):
        return f"<array {source.dtype} {source.shape}>"
    if isinstance(source, str | os.PathLike):
        return repr(os.fspath(source))
    return f"<{type(source).__name__}>"


def image_error(name: str, reason: str, advice: str) -> ImageError:
    return ImageError(f"Cannot read the picture {name}: {reason}. {advice}", reason=reason)


def _from_array(array: npt.NDArray[np.uint8]) -> Image.Image:
    seen = f"an array of dtype {array.dtype} and shape {array.shape}"
    accepted = "Accepted are uint8 arrays (rows, columns), (rows, columns, 3 or 4) in 0..255"
    if array.dtype != np.uint8:
        raise InputError(f"A picture cannot be {seen}. {accepted}: scale and convert it first.")
    if array.ndim == 3 and array.shape[0] in (3, 4) and array.shape[2] not in (3, 4):
        raise InputError(
            f"A picture cannot be {seen}. {accepted}: "
            "move the channels last, np.moveaxis(array, 0, -1)."
        )
    if array.ndim != 2 and (array.ndim != 3 or array.shape[2] not in (3, 4)):
        raise InputError(f"A picture cannot be {seen}. {accepted}.")
    if array.size == 0:
        raise InputError(f"A picture cannot be {seen}: it has no pixels. {accepted}.")
    # Pillow may keep looking at the caller's memory, which the caller may overwrite.
    return Image.fromarray(array).copy()


def _open_file(path: str | os.PathLike[str], name: str) -> BinaryIO:
    try:
        file_name = os.fspath(path)
    except TypeError:
        file_name = None
    if not isinstance(file_name, str):
        raise InputError(
            f"A picture cannot be a {type(path).__name__}. Accepted are a path, "
            "a Pillow image, or a uint8 array (rows, columns[, 3 or 4])."
        )
    try:
        mode = Path(file_name).stat().st_mode
        if stat.S_ISDIR(mode):
            raise image_error(
                name, "it is a folder", "List its pictures with piaa.images.list_images(folder)."
            )
        if not stat.S_ISREG(mode):  # opening a pipe would wait for its writer, perhaps for ever
            raise image_error(name, "it is not a regular file", "Save it to a file first.")
        return Path(file_name).open("rb")
    except FileNotFoundError as error:
        advice = (
            "Only local files are read: download it first."
            if file_name.startswith(("http://", "https://"))
            else f"Check the spelling; the current folder is {str(Path.cwd())!r}."
        )
        raise image_error(name, "there is no such file", advice) from error
    except PermissionError as error:
        raise image_error(
            name, "permission was denied", "Allow this user to read the file and its folders."
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        raise image_error(name, f"it cannot be opened ({error})", "Check the path.") from error


def _decode(file: BinaryIO, name: str, max_pixels: int) -> Image.Image:
    try:
        image = identify(file)
    except UnrecognizedFormatError as error:
        raise image_error(name, str(error), error.advice) from error
    except Exception as error:
        _fail_decoding(name, error)
    _check_size(image, name, max_pixels, weight=pixel_weight(image))
    try:
        with _pillow_limit_lifted(image.width * image.height):
            image.load()
    except Exception as error:
        _fail_decoding(name, error)
    return image


def _check_size(image: Image.Image, name: str, max_pixels: int, *, weight: float = 1.0) -> None:
    pixels = image.width * image.height
    if pixels == 0:
        raise image_error(name, "it has no pixels", "Leave it out.")
    if pixels * weight > max_pixels:
        cost = f", which cost as much to decode as {pixels * weight:,.0f} of a plain JPEG"
        raise image_error(
            name,
            f"{image.width} x {image.height} is {pixels:,} pixels{cost if weight > 1 else ''}, "
            f"more than the limit of {max_pixels:,}",
            "Scale the picture down, or raise max_pixels if you trust where it comes from.",
        )


@contextmanager
def _pillow_limit_lifted(pixels: int) -> Iterator[None]:
    """Decode without Pillow's limit where ours admits more; one picture at a time.

    Some decoders (TIFF) check again while decoding, against a variable of the whole process.
    Pictures below that limit, nearly all, never come near it.
    """
    limit = Image.MAX_IMAGE_PIXELS
    if limit is None or pixels > limit:
        with _pillow_limit_lock:
            limit = Image.MAX_IMAGE_PIXELS  # read again: None may have been another thread's lift
            if limit is not None and pixels > limit:
                Image.MAX_IMAGE_PIXELS = None
                try:
                    yield
                finally:
                    Image.MAX_IMAGE_PIXELS = limit
                return
    yield


def _upright(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
    except (SyntaxError, ValueError, TypeError, KeyError, IndexError, OSError, struct.error):
        # The pixels of a picture with garbled EXIF are sound; viewers show it as stored.
        return image
    method = _UPRIGHT.get(orientation)
    return image if method is None else image.transpose(method)


def _fail_decoding(name: str, error: Exception) -> NoReturn:
    """Turn whatever a decoder threw at damaged bytes (there is no one type) into ImageError."""
    if isinstance(error, MemoryError):
        raise image_error(
            name, "there is not enough memory to decode it", "Scale it down, or leave it out."
        ) from error
    if isinstance(error, Image.DecompressionBombError):
        raise image_error(
            name, f"Pillow refuses its size ({error})", "Raise PIL.Image.MAX_IMAGE_PIXELS."
        ) from error
    raise image_error(
        name,
        f"it cannot be decoded ({str(error) or type(error).__name__})",
        "The file is damaged or cut short: copy or download it again, or leave it out.",
    ) from error
