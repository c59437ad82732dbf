"""Features of a list of images that are encoded once, however often they are read.

They live in `piaa.scale.cache`, by the content of each picture and everything that makes features differ; so
sweeps, rivals and later runs read them from disk, and an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from piaa.atomic import write_whole
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import InputError
from piaa.images import read_bytes
from piaa.scale.cache import FeatureCache, picture_key
from piaa.scale.cached_encoder import CachedEncoder

Advance = Callable[[int], None]
"""Told how many more images are done."""

_BATCH: Final = 64
_RATE_FILE: Final = "rate.json"
# Fewer are over before threads and buffers are warm.
_ENOUGH_FOR_A_RATE: Final = 64
_ENOUGH_TO_TELL: Final = 256


@dataclass(frozen=True, eq=False)
class Encoded:
    """Iterates over the features of a set, some images at a time, as often as wanted.

    Attributes:
        paths: its images, in order.
        fresh: how many of them were encoded now; the others were kept from before.
    """

    encoder: CachedEncoder
    paths: tuple[Path, ...]
    fresh: int

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[ImageFeatures]:
        return self.encoder.stream_images(self.paths, batch_size=_BATCH)

    def rows(self, places: Iterable[int]) -> Iterator[ImageFeatures]:
        """The features of some of the images, in the order given."""
        return self.encoder.stream_images([self.paths[i] for i in places], batch_size=_BATCH)

    @property
    def images_per_second(self) -> float:
        """Of encoding, decoding included, when it was last done; measured now if nobody knows."""
        path = self._rate_file
        if not path.exists():
            return self.measure_speed()
        try:
            return float(json.loads(path.read_bytes())["images_per_second"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{path} is not what piaa wrote ({error!r}). Remove it.") from error

    def measure_speed(self) -> float:
        """Images/s of encoding some of the images again, for a machine that is faster or busier now."""
        encoder, some = self.encoder.encoder, self.paths[:_ENOUGH_FOR_A_RATE]
        for _ in encoder.stream_images(some[:1]):
            pass
        start = time.perf_counter()
        n_images = sum(len(part) for part in encoder.stream_images(some))
        rate = n_images / (time.perf_counter() - start)
        _keep_rate(rate, self._rate_file)
        return rate

    @property
    def _rate_file(self) -> Path:
        return self.encoder.cache.folder / _RATE_FILE

    @property
    def seconds(self) -> float:
        """That encoding the set takes."""
        return len(self) / self.images_per_second


class FeatureSets:
    """Sets of images whose features are kept below a folder (default: piaa's cache)."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def get(
        self, encoder: Encoder, paths: Sequence[Path], *, advance: Advance | None = None
    ) -> Encoded:
        """The set's features; what is missing is encoded first.

        Raises:
            ImageError: a picture that cannot be read; what was encoded before it is kept.
        """
        if not paths:
            raise InputError("There are no images to encode: the list is empty.")
        cached = CachedEncoder(encoder, FeatureCache(encoder.spec, self.folder))
        start = time.perf_counter()
        for part in cached.stream_images(paths):
            if advance is not None:
                advance(len(part))
        fresh, seconds = cached.n_encoded, time.perf_counter() - start
        # Among many kept ones, the time of new ones cannot be told; copies are encoded once.
        if fresh >= max(_ENOUGH_FOR_A_RATE, 0.95 * len(paths)):
            _keep_rate(fresh / seconds, cached.cache.folder / _RATE_FILE)
        return Encoded(cached, tuple(paths), fresh)

    def kept(self, encoder: Encoder, paths: Sequence[Path]) -> int:
        """About how many of the images are encoded already; of many, told from some."""
        cache = FeatureCache(encoder.spec, self.folder)
        if not len(cache):
            return 0
        some = paths[:: max(1, len(paths) // _ENOUGH_TO_TELL)]
        found = sum(cache.get(picture_key(read_bytes(path))) is not None for path in some)
        return round(len(paths) * found / len(some))


def _keep_rate(rate: float, target: Path) -> None:
    write_whole(target, json.dumps({"images_per_second": rate}).encode())
