"""Stage I: a bank of each class's most confident patches, exact, streaming and mergeable.

A patch belongs to the class whose text prototype it is nearest to. A bank keeps the K most
confident patches of every class, in the total order (key, image id, cell), lowest first. A total
order makes the K best of a union independent of how it was cut into batches, shards and merges;
what is left is to make the key of a patch a function of the patch alone: see `piaa.pvcl.keys`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from piaa.checks import unit_rows
from piaa.errors import InputError
from piaa.pvcl.keys import Keys, at
from piaa.pvcl.members import Members, Rows
from piaa.pvcl.slots import Slots

_LEAST_ROOM = 8192
_ROWS_AT_ONCE = 8192


class Bank:
    """The K most confident patches of each class in everything seen so far.

    State and arithmetic live on the device of `text`, which must know float64. Memory is bounded
    by C * K vectors, an eighth of that (or 8,192) as room between two prunings, and one batch.

    >>> from torch.nn.functional import normalize
    >>> text = torch.eye(3, 8)
    >>> bank = Bank(text, size=4)
    >>> bank.update(normalize(torch.rand(2, 5, 8), dim=-1), torch.tensor([7, 9]))
    >>> bank.n_images, bank.n_patches, len(bank.members().label) <= 10
    (2, 10, True)
    """

    def __init__(self, text: Tensor, *, size: int, text_scale: float | None = None) -> None:
        """An empty bank.

        Args:
            text: (C, D) unit text prototypes.
            size: K, at least 1.
            text_scale: softmax scale whose entropy orders the bank; `None` orders by the lead.
        """
        self.text = unit_rows("text", text, ndim=2).clone()
        if len(self.text) == 0:
            raise InputError("text holds no class prototype; at least one class is needed.")
        if size < 1:
            raise InputError(f"A bank's size must be at least 1, got {size}.")
        if text_scale is not None and not (math.isfinite(text_scale) and text_scale > 0):
            raise InputError(f"text_scale must be a positive finite number, got {text_scale!r}.")
        self.size = size
        self.text_scale = text_scale
        self.n_images = 0
        self.n_patches = 0
        self._keys = Keys(self.text, text_scale)
        room = max(_LEAST_ROOM, len(self.text) * size // 8)
        self._slots = Slots(self._keys, size=size, room=room)

    @property
    def n_classes(self) -> int:
        return len(self.text)

    def update(self, patches: Tensor, image_ids: Tensor) -> None:
        """Add images.

        Args:
            patches: (B, M, D) unit patch features, any floating dtype; kept as float32.
            image_ids: (B,) int64, one stable id an image. The same image again adds nothing.
        """
        rows = unit_rows("patches", patches, ndim=3, width=self.text.shape[1])
        n_images, n_cells, dim = rows.shape
        self._check_ids(image_ids, n_images)
        rows = rows.to(self.text.device).reshape(-1, dim)
        ids = image_ids.to(self.text.device)
        step = self._keys.rows_at_once(_ROWS_AT_ONCE)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            place, label, least, most = self._keys.entering(some, self._slots.worst)
            vectors = at(some, place)
            place = place + start
            image, cell = ids[place // n_cells], place % n_cells
            self._slots.insert(vectors, label, most, image, cell, least)
        self.n_images += n_images
        self.n_patches += len(rows)

    def members(self, size: int | None = None) -> Members:
        """The `size` most confident vectors of each class (`None`: all that the bank keeps).

        The best k of the best K are the best k of all, so any `size` up to the bank's is exact.
        """
        return self._slots.copy(self._best(size))

    def borrow(self, size: int | None = None) -> tuple[Rows, Tensor, Tensor]:
        """Vectors, classes (N,) and image ids (N,) of `members`, without copying the vectors.

        To be used before the bank changes.
        """
        return self._slots.borrow(self._best(size))

    def absorb(self, other: Bank) -> None:
        """Add the images of another bank of the same collection; see `merge`."""
        same = self.size == other.size and self.text_scale == other.text_scale
        if not same or not torch.equal(self.text, other.text):
            raise InputError(
                "Banks merge only if they were made with the same text prototypes, size and "
                f"text_scale; got sizes {self.size} and {other.size}, text scales "
                f"{self.text_scale} and {other.text_scale}, and text prototypes that are "
                f"{'equal' if torch.equal(self.text, other.text) else 'different'}."
            )
        self._slots.insert(*vars(other.members()).values())
        self.n_images += other.n_images
        self.n_patches += other.n_patches
        self._slots.prune()

    def successor(self) -> Bank:
        """An empty bank that keeps of later images only what can matter beside this one.

        Merged with this one it gives what an empty bank would have given; alone it is smaller, the
        more so the more this one has seen.
        """
        later = Bank(self.text, size=self.size, text_scale=self.text_scale)
        self._slots.prune()
        later._slots.worst.copy_(self._slots.worst)
        return later

    def first(self, n_classes: int) -> Bank:
        """The bank of the first classes alone, less the patches that are nearer to one of the others."""
        members = self.members()
        mine = members.label < n_classes
        bank = Bank(self.text[:n_classes], size=self.size, text_scale=self.text_scale)
        bank._slots.insert(*(column[mine] for column in vars(members).values()))
        bank.n_images, bank.n_patches = self.n_images, self.n_patches
        return bank

    def state(self) -> dict[str, Tensor]:
        """Everything as plain tensors in canonical order: equal banks have equal states."""
        members = self.members()
        scale = math.nan if self.text_scale is None else self.text_scale
        return {
            "text": self.text,
            "size": torch.tensor(self.size),
            "text_scale": torch.tensor(scale, dtype=torch.float64),
            "n_images": torch.tensor(self.n_images),
            "n_patches": torch.tensor(self.n_patches),
            **vars(members),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> Bank:
        """The inverse of `state`."""
        scale = state["text_scale"].item()
        bank = cls(
            state["text"],
            size=int(state["size"]),
            text_scale=None if math.isnan(scale) else scale,
        )
        columns = ("vectors", "label", "key", "image", "cell")
        bank._slots.insert(*(state[column] for column in columns))
        bank.n_images, bank.n_patches = int(state["n_images"]), int(state["n_patches"])
        return bank

    def _best(self, size: int | None) -> Tensor:
        if size is not None and not 1 <= size <= self.size:
            raise InputError(f"size must lie between 1 and the bank's {self.size}, got {size}.")
        return self._slots.best(size or self.size)

    def _check_ids(self, image_ids: object, n_images: int) -> None:
        if not isinstance(image_ids, Tensor) or image_ids.dtype != torch.int64:
            seen = image_ids.dtype if isinstance(image_ids, Tensor) else type(image_ids).__name__
            raise InputError(f"image_ids must be an int64 tensor, got {seen}.")
        if image_ids.shape != (n_images,):
            raise InputError(
                f"image_ids must hold one id for each of the {n_images} images, "
                f"got shape {tuple(image_ids.shape)}."
            )
        if len(set(image_ids.tolist())) != n_images:
            raise InputError("image_ids repeats an id within one batch; ids must be distinct.")


def merge(first: Bank, second: Bank) -> Bank:
    """The bank of all images of both, of one collection; an image in both counts once.

    Any order and grouping of merges gives the same `Bank.state()`, bit for bit.
    """
    merged = Bank(first.text, size=first.size, text_scale=first.text_scale)
    merged.absorb(first)
    merged.absorb(second)
    return merged
