"""Where a bank keeps its vectors: slots that are filled, ranked within their class and freed.

Vectors stay in the slot they were first written to, and the K best of a class are found by sorting
their numbers only, so that nothing of size C * K * D is ever copied.

Vectors may come with rough keys. These suffice to see that most cannot be among the K best any more;
whoever may be stays, and the exact keys are for those who are there at the end.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piaa.pvcl.keys import Keys
from piaa.pvcl.members import Members, Rows, lexsort

# Memory that is reserved and not written to costs nothing, and growing costs a copy.
_RESERVED_NUMBERS = 2**27
_MIXING = 0x9E3779B97F4A7C1


class Slots:
    """At most C * K vectors plus some room; a free slot has label -1.

    Attributes:
        worst: (C,) float64, no less than the key of each class's K-th vector at the last pruning (inf if
            it had fewer). A vector with a higher key can never be among the K best.
    """

    # Inference mode ends before a bank does, and tensors born in it could not be changed after.
    @torch.inference_mode(False)
    def __init__(self, keys: Keys, *, size: int, room: int) -> None:
        n_classes, dim = keys.prototypes.shape
        device = keys.prototypes.device
        self.size, self._keys, self._room = size, keys, room
        self._most = n_classes * size + room
        self._vectors = torch.empty(0, dim, device=device)
        self._label = torch.empty(0, dtype=torch.int64, device=device)
        self._key = torch.empty(0, dtype=torch.float64, device=device)
        self._least = torch.empty(0, dtype=torch.float64, device=device)
        self._image = torch.empty(0, dtype=torch.int64, device=device)
        self._cell = torch.empty(0, dtype=torch.int64, device=device)
        self._free = torch.empty(0, dtype=torch.int64, device=device)
        self.worst = self._key.new_full((n_classes,), math.inf)

    def __len__(self) -> int:
        """Slots in use and free."""
        return len(self._label)

    def insert(
        self,
        vectors: Tensor,
        label: Tensor,
        key: Tensor,
        image: Tensor,
        cell: Tensor,
        least: Tensor | None = None,
    ) -> None:
        """Write (N, D) vectors, in whatever order, to free slots; prune if there are too few.

        Keys are the most that the exact ones can be; the least, (N,), is the same where it is not given.
        """
        for start in range(0, len(label), self._room):
            part = slice(start, start + self._room)
            self._make_room(len(label[part]))
            free, self._free = self._free.tensor_split([len(label[part])])
            slots = _run(free)
            self._vectors[slots] = vectors[part]
            self._label[slots] = label[part]
            self._key[slots] = key[part]
            self._least[slots] = (key if least is None else least)[part]
            self._image[slots] = image[part]
            self._cell[slots] = cell[part]

    def best(self, size: int) -> Tensor:
        """Slots of the `size` best of each class, in canonical order."""
        order, rank = self._cut()
        return order[rank < size]

    def borrow(self, slots: Tensor) -> tuple[Rows, Tensor, Tensor]:
        """Vectors, class and image of some slots; the vectors are not copied."""
        return Rows(self._vectors, slots), self._label[slots], self._image[slots]

    def copy(self, slots: Tensor) -> Members:
        fields = (self._vectors, self._label, self._key, self._image, self._cell)
        return Members(*(field[slots] for field in fields))

    def prune(self) -> None:
        """Free the slots of vectors that, whatever their exact keys, are not among their class's K best."""
        used = self._used()
        # A copy that is taken for another vector would push one out; equal keys tell it.
        self._look_closely(self._maybe_copies(used))
        order, rank = self._ranked(used)
        last = order[rank == self.size - 1]
        label = self._label[last]
        self.worst[label] = torch.minimum(self.worst[label], self._key[last])
        self._release(order[self._least[order] > self.worst[self._label[order]]])

    def _cut(self) -> tuple[Tensor, Tensor]:
        """Free all slots but those of each class's K best.

        Returns the slots that were in use, in canonical order, and their rank within their class.
        """
        self.prune()
        used = self._used()
        self._look_closely(used[self._rough(used)])
        order, rank = self._ranked(used)
        last = order[rank == self.size - 1]
        self.worst[self._label[last]] = self._key[last]
        self._release(order[rank >= self.size])
        return order, rank

    def _used(self) -> Tensor:
        return (self._label >= 0).nonzero().squeeze(1)

    def _release(self, slots: Tensor) -> None:
        self._label[slots] = -1
        self._free = (self._label < 0).nonzero().squeeze(1)

    def _ranked(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The slots by (label, key, image, cell), without copies, and their rank within their class."""
        order = self._ordered(slots)
        label = self._label[order]
        counts = torch.bincount(label, minlength=len(self.worst))
        starts = counts.cumsum(0) - counts
        return order, torch.arange(len(order), device=order.device) - starts[label]

    def _look_closely(self, slots: Tensor) -> None:
        _, key = self._keys.assess(Rows(self._vectors, slots))
        self._key[slots] = self._least[slots] = key

    def _rough(self, slots: Tensor) -> Tensor:
        return self._least[slots] < self._key[slots]

    def _maybe_copies(self, slots: Tensor) -> Tensor:
        """Those with rough keys of which another slot may hold the same cell of the same image."""
        # 32 bits suffice: a look more at two that are not the same does no harm.
        number = (self._image[slots] * _MIXING + self._cell[slots]) * _MIXING
        number, order = (number >> 32).int().sort(stable=True)
        same = number[1:] == number[:-1]
        again = torch.zeros_like(slots, dtype=torch.bool)
        again[order[1:][same]] = True
        again[order[:-1][same]] = True
        return slots[again & self._rough(slots)]

    def _ordered(self, slots: Tensor) -> Tensor:
        """Slots by (label, key, image, cell)."""
        # Rounding to float32 keeps the order up to ties, and as whole numbers of 32 bits and less
        # keys and labels sort several times faster (by digits) than float64 and int64 do.
        bits = self._key[slots].float().view(torch.int32)
        rounded = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # negative floats run backward as integers
        label = self._label[slots].int()
        sorting = lexsort(rounded, label)
        order, rounded, label = slots[sorting], rounded[sorting], label[sorting]
        equal = (label[1:] == label[:-1]) & (rounded[1:] == rounded[:-1])
        if equal.any():
            tied = torch.zeros_like(order, dtype=torch.bool)
            tied[1:] |= equal
            tied[:-1] |= equal
            order[tied] = self._settled(order[tied])
            order = order[self._label[order] >= 0]
        return order

    def _settled(self, slots: Tensor) -> Tensor:
        label, key = self._label[slots], self._key[slots]
        image, cell = self._image[slots], self._cell[slots]
        order = lexsort(cell, image, key, label)
        fields = [field[order] for field in (label, key, image, cell)]
        twice = torch.stack([field[1:] == field[:-1] for field in fields]).all(0)
        if not twice.any():
            return slots[order]
        # A copy of an image, or shards that overlap: a vector that is there already adds nothing. Which of
        # two near-copies stays is for their content to say, not for who came first.
        content = torch.zeros_like(image)
        copies = torch.zeros_like(order, dtype=torch.bool)
        copies[1:] |= twice
        copies[:-1] |= twice
        copies = order[copies]
        content[copies] = _content_of(self._vectors[slots[copies]])
        order = lexsort(content, cell, image, key, label)
        self._label[slots[order][1:][twice]] = -1
        return slots[order]

    @torch.inference_mode(False)
    def _make_room(self, needed: int) -> None:
        if needed <= len(self._free):
            return
        if len(self) == self._most or len(self) >= (self._most - self._room) // 2:
            self.prune()
        if len(self) == self._most and len(self._free) < max(needed, self._room // 2):
            self._cut()
        if needed <= len(self._free):
            return
        old = len(self)
        reserved = _RESERVED_NUMBERS // self._vectors.shape[1]
        new = min(self._most, max(2 * old, old + self._room, reserved))
        self._vectors = _grown(self._vectors, new)
        self._label = _grown(self._label, new)
        self._key = _grown(self._key, new)
        self._least = _grown(self._least, new)
        self._image = _grown(self._image, new)
        self._cell = _grown(self._cell, new)
        self._label[old:] = -1
        self._free = torch.cat([self._free, torch.arange(old, new, device=self._free.device)])


def _run(places: Tensor) -> Tensor | slice:
    """Ascending, distinct places as a slice if none is left out: a plain copy is twice as fast."""
    if len(places) and int(places[-1] - places[0]) == len(places) - 1:
        return slice(int(places[0]), int(places[-1]) + 1)
    return places


def _content_of(vectors: Tensor) -> Tensor:
    """A number (n,) int64 of the bits of each vector (n, D) float32, the same on every machine."""
    bits = vectors.view(torch.int32).long()
    places = torch.arange(1, 2 * bits.shape[1], 2, device=bits.device)
    return (bits * (places * _MIXING)).sum(1)


def _grown(tensor: Tensor, length: int) -> Tensor:
    larger = tensor.new_empty((length, *tensor.shape[1:]))
    larger[: len(tensor)] = tensor
    return larger
