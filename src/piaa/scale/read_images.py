"""Pictures on their way from a process that reads and decodes them to one that encodes them.

They travel scaled down to what the network will see, as PPM: a header and plain RGB, so that decoding it is
a copy. A picture of 12 million pixels, 36 MB, becomes 150 KB that way; and the encoder's own scaling leaves
what has its size already as it is, so that not a bit differs from reading the file itself.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from piaa.encoders.base import EncoderSpec
from piaa.errors import ImageError, PiaaError
from piaa.features.shards import Storage
from piaa.images import (
    ImageSource,
    Preprocessing,
    StoredImage,
    fit_pixels,
    open_image,
    read_bytes,
)
from piaa.images.ahead import threads_ahead
from piaa.images.opening import describe_source, source_name
from piaa.images.placement import Size
from piaa.scale.cache import FeatureCache, picture_key
from piaa.scale.units import Unit

_FETCHERS: Final = 4
"""Threads that wait for disks and stores while another picture is decoded."""

Row: TypeAlias = tuple[str, bytes]
"""What is told of a picture, as JSON in ASCII (names may hold what is not valid text), and its bytes."""
_Broken: TypeAlias = tuple[str, str]


@dataclass(frozen=True)
class ReadImage(StoredImage):
    """A picture that another process has read.

    Attributes:
        original_size: (rows, columns) before it was scaled down; None if `read` gives it as it was.
        key: what a `FeatureCache` knows it by; empty where there is none.
    """

    original_size: Size | None = None
    key: bytes = b""


@dataclass(frozen=True)
class Reader:
    """Reads and decodes the pictures of a unit, or of a slice of it.

    Attributes:
        preprocessing: of the encoder that they are for; None for whole pictures, which tiles are cut from.
        cache: spec, folder and storage of its `FeatureCache`, if it has one. What that knows is not decoded.
    """

    preprocessing: Preprocessing | None
    cache: tuple[EncoderSpec, Path, Storage] | None = None

    def rows(self, part: Unit) -> Iterator[Row]:
        """Every picture in order, those that cannot be read too, and parts that cannot be read on."""
        cache = None if self.cache is None else _known_cache(*self.cache)
        for source, fetched in _fetch_ahead(_in_order(part)):
            start = time.perf_counter()
            if source is None:
                name, reason = fetched()
                yield json.dumps({"name": name, "broken": reason}), b""
                continue
            about: dict[str, Any] = {"name": source_name(source) or describe_source(source)}
            content = b""
            try:
                data = fetched()
                if cache is not None:
                    key = picture_key(data)
                    about["key"] = key.hex()
                    if key in cache:
                        content = data
                if not content:
                    stored = StoredImage(about["name"], partial(bytes, data))
                    content, about["size"] = self._decoded(stored)
            except ImageError as error:
                about["error"] = [str(error), error.reason]
            about["seconds"] = time.perf_counter() - start
            yield json.dumps(about), content

    def _decoded(self, source: StoredImage) -> tuple[bytes, Size | None]:
        image = open_image(source)
        if self.preprocessing is None:
            return _ppm(image.size, image.tobytes()), None
        pixels, placement = fit_pixels(image, self.preprocessing)
        # Without what "pad" adds: that has to be exactly 0 once normalized, whatever color it has here.
        top, left, bottom, right = placement.content
        shown = pixels[:, top:bottom, left:right].permute(1, 2, 0).contiguous().numpy()
        return _ppm((right - left, bottom - top), shown.tobytes()), placement.original_size


def unpacked(
    rows: Iterable[Row],
    on_broken: Callable[[str, str], None],
    spend: Callable[[str, float, int], None],
) -> Iterator[ReadImage]:
    """The pictures of some rows. Told are the time that reading took, and what is broken, as of a unit."""
    known = [(json.loads(told), data) for told, data in rows]
    for about, _ in known:
        if "fatal" in about:
            raise PiaaError(about["fatal"])
    seconds = [about["seconds"] for about, _ in known if "seconds" in about]
    spend("read", sum(seconds), len(seconds))
    for about, data in known:
        if "broken" in about:
            on_broken(about["name"], about["broken"])
            continue
        error, size = about.get("error"), about.get("size")
        yield ReadImage(
            about["name"],
            partial(_fail, *error) if error else partial(bytes, data),
            None if size is None else (size[0], size[1]),
            bytes.fromhex(about.get("key", "")),
        )


def _in_order(part: Unit) -> Iterator[ImageSource | _Broken]:
    broken: list[_Broken] = []
    for source in part.images(lambda name, reason: broken.append((name, reason))):
        yield from broken
        broken.clear()
        yield source
    yield from broken


def _fetch_ahead(
    items: Iterator[ImageSource | _Broken],
) -> Iterator[tuple[ImageSource | None, Callable[[], Any]]]:
    """Each picture and what gives its bytes; None and what gives name and reason of what is broken."""
    ahead: deque[tuple[ImageSource | None, Callable[[], Any]]] = deque()

    def submit(count: int) -> None:
        for item in islice(items, count):
            if isinstance(item, tuple):
                ahead.append((None, partial(_as_it_is, item)))
            else:
                task: Future[bytes] = pool.submit(read_bytes, item)  # type: ignore[arg-type]
                ahead.append((item, task.result))

    with threads_ahead(_FETCHERS, "piaa-fetch") as pool:
        submit(2 * _FETCHERS)
        while ahead:
            yield ahead.popleft()
            submit(1)


def _as_it_is(broken: _Broken) -> _Broken:
    return broken


def _ppm(size: tuple[int, int], pixels: bytes) -> bytes:
    return b"P6 %d %d 255\n" % size + pixels


def _fail(message: str, reason: str) -> NoReturn:
    raise ImageError(message, reason=reason)


_caches: dict[Path, FeatureCache] = {}


def _known_cache(spec: EncoderSpec, folder: Path, storage: Storage) -> FeatureCache:
    """The cache of this process, with what others have written since."""
    if folder in _caches:
        _caches[folder].refresh()
    else:
        _caches[folder] = FeatureCache(spec, folder.parent, storage=storage)
    return _caches[folder]
