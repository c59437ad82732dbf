"""What fitting gathers from a stream of features; `piaa.fitting.finishing` turns it into a scorer.

Gathered are two banks (an image's id decides which of the two; together they are the collection's bank) and
one bounded sample of whole images. Both are exact whatever the order, the batches and the shards, so fits of
shards merge into the fit of the collection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor

from piaa.config import Config
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError
from piaa.features.remembered import Remembered
from piaa.features.sample import Sample, halves, image_ids
from piaa.features.store import FeatureStore
from piaa.fitting.finishing import Finisher
from piaa.fitting.fitted import Fitted
from piaa.pvcl import Bank, new_bank


class Gathered:
    """What fitting keeps of the images seen so far."""

    def __init__(self, text: Tensor, config: Config) -> None:
        self.text, self.config = text, config
        self.banks = (new_bank(text, config), new_bank(text, config))
        self.sample = Sample()

    @property
    def n_images(self) -> int:
        return self.banks[0].n_images + self.banks[1].n_images

    def add(self, features: ImageFeatures) -> None:
        """Take in B images. The same image again changes nothing but the count."""
        every = image_ids(features.cls)
        for places in _rounds(every):
            ids, patches, cls = every, features.patches, features.cls
            if len(places) < len(every):  # else a copy would cost as much as adding does
                ids, patches, cls = ids[places], patches[places], cls[places]
            # First, because it may refuse the images; then nothing has been taken in.
            self.sample.update(patches, cls, ids)
            second_half = halves(ids)
            for bank, mine in zip(self.banks, (~second_half, second_half), strict=True):
                if mine.any():
                    bank.update(patches[mine], ids[mine])

    def merge(self, other: Gathered) -> None:
        """Add what was gathered from other images of the collection."""
        if not torch.equal(self.text, other.text) or self.config != other.config:
            raise InputError(
                "Fits of different classes, encoders or configs cannot be merged; fit every shard with "
                "the same ones."
            )
        self.sample.merge(other.sample)
        for bank, others in zip(self.banks, other.banks, strict=True):
            bank.absorb(others)

    def successor(self) -> Gathered:
        """An empty one that keeps of later images only what can matter beside this one.

        This one merged with it is what it would have been with all those images.
        """
        later = Gathered(self.text, self.config)
        later.banks = (self.banks[0].successor(), self.banks[1].successor())
        later.sample = self.sample.successor()
        return later

    def state(self) -> dict[str, Tensor]:
        """Everything but the config as plain tensors; equal states were gathered from the same images."""
        states = [bank.state() for bank in self.banks]
        named = zip(("first", "second", "sample"), (*states, self.sample.state()), strict=True)
        flat = {f"{name}.{key}": value for name, state in named for key, value in state.items()}
        return {"text": self.text} | {k: v for k, v in flat.items() if not k.endswith(".text")}

    @classmethod
    def from_state(
        cls, state: Mapping[str, Tensor], config: Config, *, device: torch.device | None = None
    ) -> Gathered:
        """The inverse of `state`; banks go to `device`, as those of an encoder there are."""
        gathered = cls(state["text"].to(device), config)

        def part(name: str) -> dict[str, Tensor]:
            start = f"{name}."
            return {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}

        def bank(name: str) -> Bank:
            moved = {key: value.to(device) for key, value in part(name).items()}
            return Bank.from_state({"text": gathered.text} | moved)

        gathered.banks = (bank("first"), bank("second"))
        gathered.sample = Sample.from_state(part("sample"))
        return gathered

    def finish(self, *, n_others: int = 0) -> Fitted:
        """Classifier, branch weights and thresholds of everything gathered.

        n_others: how many of the last text prototypes are of other names (`piaa.classes.others`).
        """
        if self.n_images == 0:
            raise InputError("There is no image to learn from.")
        finisher = Finisher(self.text, self.config, self.banks, self.sample, n_others=n_others)
        return finisher.finish()

    def remembered(self) -> Iterator[ImageFeatures]:
        """The images of the sample by id, some at a time; as one row of patches, whatever their grid."""
        return Remembered(self.sample, self.text.device).features()


def gather(
    gathered: Gathered, batches: Iterable[ImageFeatures], store: FeatureStore | None = None
) -> None:
    """Take in all batches, and keep them in a store as well if there is one."""
    n_before = gathered.n_images
    for batch in batches:
        gathered.add(batch)
        if store is not None:
            store.add(batch)
    if gathered.n_images == n_before:
        raise InputError("There are no images to fit on: the list is empty.")


def _rounds(ids: Tensor) -> list[Tensor]:
    """Places of ids (B,) in groups without a repetition, as banks take them: first ones, second ones..."""
    rounds: list[list[int]] = []
    times: Counter[int] = Counter()
    for place, value in enumerate(ids.tolist()):
        if times[value] == len(rounds):
            rounds.append([])
        rounds[times[value]].append(place)
        times[value] += 1
    return [torch.tensor(places, dtype=torch.int64) for places in rounds]
