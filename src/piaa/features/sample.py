"""A bounded random sample of a collection that does not depend on order or sharding.

The images with the lowest hashes are kept: of any union of shards the lowest hashes are the lowest of the
shards' lowest, so samples merge like banks do. Copies of a picture share a hash, and may yet differ in their
last bits; of those the one with the lowest bytes is kept, whichever came first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

from piaa.errors import InputError

# Patches of one image are 100 to 200 KB as small whole numbers: about two thousand images.
SAMPLE_BYTES = 256 * 2**20
SAMPLE_IMAGES = 2000

# An encoder's vectors change by 1e-7 with the size of the batch. Whole numbers of this step, of this many
# dimensions, change for 1 image in 5,000; and two pictures as alike as a cosine of 0.99 still differ in them.
_ID_STEP = 1 / 64
_ID_DIMENSIONS = 32


def image_ids(cls: Tensor) -> Tensor:
    """Ids (B,) int64 of images by their global vectors (B, D).

    The id depends on the picture alone, not on its name, place or batch: a collection can move, and a copy
    of a picture counts once.
    """
    coarse = (cls.detach().float().cpu()[:, :_ID_DIMENSIONS] / _ID_STEP).round().to(torch.int8)
    rows = coarse.contiguous().numpy()
    digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
    return torch.tensor(
        [int.from_bytes(d, "little", signed=True) for d in digests], dtype=torch.int64
    )


def halves(ids: Tensor) -> Tensor:
    """Which half of the collection each image belongs to, (B,) bool: one bit of its id."""
    return (ids & 1).bool()


def capacity(n_patches: int, dim: int) -> int:
    """How many images a sample keeps, for images of that many patch vectors."""
    return int(max(64, min(SAMPLE_IMAGES, SAMPLE_BYTES // (n_patches * dim))))


def _small(vectors: Tensor) -> Tensor:
    """Vectors (..., D) as whole numbers up to 127; those that are already stay as they are."""
    if vectors.dtype == torch.int8:
        return vectors
    largest = vectors.abs().amax(dim=-1, keepdim=True).clamp_min(1e-12)
    return (vectors / largest * 127).round().to(torch.int8)


def _kept(patches: Tensor, cls: Tensor) -> tuple[Tensor, Tensor]:
    """Images as they are kept: patches int8, global vectors float32, on the CPU."""
    return _small(patches.detach()).cpu(), cls.detach().to(device="cpu", dtype=torch.float32)


def _bytes(patches: Tensor, cls: Tensor) -> bytes:
    return cls.contiguous().numpy().tobytes() + patches.contiguous().numpy().tobytes()


class Sample:
    """Directions of patches and global vectors of the images with the lowest ids, in no order.

    Ids are hashes, so the lowest ids are a random choice. `order()` gives the places by id, which is the same
    whatever the history. `complete` tells whether every image ever offered is here.
    """

    def __init__(self) -> None:
        self.complete = True
        self._ceiling: int | None = None
        self.ids = torch.empty(0, dtype=torch.int64)
        self._patches = torch.empty(0, dtype=torch.int8)
        self._cls = torch.empty(0)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def patches(self) -> Tensor:
        """(S, M, D) int8, each vector up to its length; cosines are within about 1e-4."""
        return self._patches[: len(self)]

    @property
    def cls(self) -> Tensor:
        """(S, D) float32."""
        return self._cls[: len(self)]

    def order(self) -> Tensor:
        """Places (S,) of the images by ascending id."""
        return self.ids.argsort()

    def update(self, patches: Tensor, cls: Tensor, ids: Tensor) -> None:
        """Offer B images; those among the lowest are kept, of several with one id the one of lowest bytes."""
        if len(self) and patches.shape[1:] != self._patches.shape[1:]:
            raise InputError(
                f"Images of {patches.shape[1]} patches of {patches.shape[2]} numbers cannot join a sample "
                f"of {self._patches.shape[1]} x {self._patches.shape[2]}: use one encoder and image size."
            )
        room = capacity(*patches.shape[1:])
        new = self._wanted(patches, cls, ids, room)
        if not len(new):
            return
        total = min(room, len(self) + len(new))
        self._grow(total, patches, room)
        # The highest ids of those here make way for lower ones, place by place.
        places = torch.arange(len(self), total)
        leaving = self.ids.argsort(descending=True)[: len(new) - len(places)]
        places = torch.cat([places, leaving])
        self._patches[places], self._cls[places] = _kept(patches[new], cls[new])
        grown = self.ids.new_empty(total)
        grown[: len(self)] = self.ids
        grown[places] = ids[new]
        self.ids = grown

    def _wanted(self, patches: Tensor, cls: Tensor, ids: Tensor, room: int) -> Tensor:
        """Which of the offered images belong to the `room` lowest, each once; copies of those here take
        their place if they are lower."""
        known = {value: place for place, value in enumerate(self.ids.tolist())}
        fresh: dict[int, int] = {}
        for place, value in enumerate(ids.tolist()):
            if value in known:
                copy, here = _kept(patches[place], cls[place]), known[value]
                if _bytes(*copy) < _bytes(self._patches[here], self._cls[here]):
                    self._patches[here], self._cls[here] = copy
            elif self._ceiling is not None and value > self._ceiling:
                self.complete = False
            else:
                other = fresh.setdefault(value, place)
                if other != place:
                    fresh[value] = min(
                        (other, place), key=lambda i: _bytes(*_kept(patches[i], cls[i]))
                    )
        offered = torch.tensor(list(fresh), dtype=torch.int64)
        union = torch.cat([self.ids, offered])
        self.complete = self.complete and len(union) <= room
        lowest = union.argsort()[:room]
        chosen = lowest[lowest >= len(self)] - len(self)
        return torch.tensor(list(fresh.values()), dtype=torch.int64)[chosen]

    def _grow(self, total: int, patches: Tensor, room: int) -> None:
        if total <= len(self._patches):
            return
        length = min(room, max(total, 2 * len(self._patches), 64))
        larger = torch.empty(length, *patches.shape[1:], dtype=torch.int8)
        larger_cls = torch.empty(length, patches.shape[2])
        if len(self):
            larger[: len(self)], larger_cls[: len(self)] = self.patches, self.cls
        self._patches, self._cls = larger, larger_cls

    def merge(self, other: Sample) -> None:
        """Add what another sample of the same collection holds."""
        if len(other):
            self.update(other.patches, other.cls, other.ids)
        self.complete = self.complete and other.complete

    def successor(self) -> Sample:
        """An empty sample that keeps of later images only those that can enter this one.

        Merged with this one it gives what an empty sample would have given.
        """
        later = Sample()
        if len(self) and len(self) == capacity(*self.patches.shape[1:]):
            later._ceiling = int(self.ids.max())
        return later

    def state(self) -> dict[str, Tensor]:
        """Everything as plain tensors, by ascending id: equal samples have equal states."""
        order = self.order()
        return {
            "ids": self.ids[order],
            "patches": self.patches[order],
            "cls": self.cls[order],
            "complete": torch.tensor(self.complete),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Sample:
        """The inverse of `state`."""
        sample = cls()
        sample.ids, sample._patches, sample._cls = state["ids"], state["patches"], state["cls"]
        sample.complete = bool(state["complete"])
        return sample
