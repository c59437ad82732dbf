"""Pictures -> features: decoded apart, encoded together, remembered for a while."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from PIL import Image

from piaa.encoders.base import ImageFeatures
from piaa.encoders.tiled import TiledEncoder
from piaa.features.batches import feature_batches
from piaa.images import normalize_pixels
from piaa.recognizer import Recognizer
from piaa.serve.batching import Batcher, Places
from piaa.serve.bodies import Picture
from piaa.serve.decoder import Job
from piaa.serve.decoding import Decoded, DecoderPool
from piaa.serve.limits import Limits
from piaa.serve.metrics import Metrics
from piaa.serve.problems import ProblemError


@dataclass(frozen=True)
class Seen:
    """A picture that was looked at.

    Attributes:
        size: (rows, columns) of the upright picture.
        features: of this one picture.
        sha256: of its file; None where nothing is remembered.
        preview: the picture made small, if that was asked for.
    """

    size: tuple[int, int]
    features: ImageFeatures
    sha256: str | None
    preview: Image.Image | None = None

    @property
    def n_bytes(self) -> int:
        return self.features.patches.nbytes + self.features.cls.nbytes


class Engine:
    """Looks at pictures for all requests of a service; `start` before, `close` after use."""

    def __init__(self, recognizer: Recognizer, limits: Limits, metrics: Metrics) -> None:
        encoder = recognizer.encoder
        tiled = encoder if isinstance(encoder, TiledEncoder) else None
        self._encoder = encoder
        self._network = encoder if tiled is None else tiled.encoder
        self._preprocessing = encoder.spec.preprocessing
        self._metrics = metrics
        self._recent = _Recent(limits.remembered_bytes)
        job = Job(
            self._preprocessing,
            None if tiled is None else tiled.tiles,
            max_pixels=limits.pixels,
            seconds=limits.decode_seconds,
            memory_bytes=limits.decode_bytes,
        )
        self.decoders = DecoderPool(job, workers=limits.decoders)
        self.batcher: Batcher[Decoded, ImageFeatures] = Batcher(
            self._encode,
            max_batch=limits.batch,
            max_wait=limits.wait_seconds,
            capacity=limits.queue,
            threads=limits.encoders,
            on_batch=metrics.batches.add,
        )
        self.ready = False

    async def start(self) -> None:
        await asyncio.gather(
            asyncio.to_thread(self.decoders.start), asyncio.to_thread(self._warm_up)
        )
        self.ready = True

    async def close(self) -> None:
        """Finish what was accepted, then let go of threads and processes."""
        self.ready = False
        await self.batcher.close()
        await asyncio.to_thread(self.decoders.close)

    async def see(
        self, pictures: Sequence[Picture], *, preview_side: int = 0
    ) -> list[Seen | ProblemError]:
        """Each picture looked at, or why not, in order. Raises ProblemError if there is no place."""
        if not self.ready:
            raise ProblemError("starting", "The service is starting, or about to end.")
        with self.batcher.reserve(len(pictures)) as places:
            looks = (self._try(picture, preview_side, places) for picture in pictures)
            return await asyncio.gather(*looks)

    async def _try(
        self, picture: Picture, preview_side: int, places: Places
    ) -> Seen | ProblemError:
        try:
            seen = await self._see(picture, preview_side)
        except ProblemError as problem:
            self._metrics.images.add(outcome=problem.slug)
            return problem
        finally:
            places.give_back()
        self._metrics.images.add(outcome="seen")
        return seen

    async def _see(self, picture: Picture, preview_side: int) -> Seen:
        sha256 = picture.sha256
        if sha256 is None and self._recent.capacity and picture.data is not None:
            sha256 = await asyncio.to_thread(_sha256, picture.data)
        known = None if sha256 is None else self._recent.get(sha256)
        if known is not None and not preview_side:
            return known
        if picture.data is None:
            needed = (
                "A PNG needs the picture itself" if known else "It was forgotten, or never seen"
            )
            raise ProblemError("not-remembered", f"{needed}: send it in place of its sha256.")
        decoded = await self.decoders.decode(picture.data, preview_side=preview_side)
        features = await self.batcher.submit(decoded) if known is None else known.features
        seen = Seen(decoded.size, features, sha256)
        self._recent.put(seen)
        return replace(seen, preview=decoded.preview)

    def _encode(self, batch: Sequence[Decoded]) -> list[ImageFeatures]:
        """Features of each picture, as the recognizer's own encoder gives them; sharing no memory."""
        placements = tuple(place for decoded in batch for place in decoded.placements)
        pixels = torch.cat([decoded.pixels for decoded in batch]).to(self._network.device)
        encoded = self._network.encode_pixels(
            normalize_pixels(pixels, placements, self._preprocessing)
        )
        windows = len(placements) // len(batch)
        features = ImageFeatures(
            cls=encoded.cls[::windows],
            patches=encoded.patches.reshape(len(batch), -1, encoded.patches.shape[-1]),
            grid=encoded.grid,
            placements=placements,
            windows=windows,
        )
        singles = feature_batches(self._encoder, features, batch_size=1)
        return [replace(f, cls=f.cls.clone(), patches=f.patches.clone()) for f in singles]

    def _warm_up(self) -> None:
        rows, columns = self._preprocessing.image_size
        self._network.encode_pixels(torch.zeros(1, 3, rows, columns, device=self._network.device))


class _Recent:
    """The pictures seen last, by the hash of their file, within a number of bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._seen: OrderedDict[str, Seen] = OrderedDict()
        self._n_bytes = 0

    def get(self, sha256: str) -> Seen | None:
        if sha256 not in self._seen:
            return None
        self._seen.move_to_end(sha256)
        return self._seen[sha256]

    def put(self, seen: Seen) -> None:
        if seen.sha256 is None or seen.sha256 in self._seen:
            return
        self._seen[seen.sha256] = seen
        self._n_bytes += seen.n_bytes
        while self._n_bytes > self.capacity:
            self._n_bytes -= self._seen.popitem(last=False)[1].n_bytes


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
