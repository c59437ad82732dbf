"""What the rest of piaa knows of a data set: paths, labels, and how far it is the published one."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from piaa.errors import InputError

Labels: TypeAlias = NDArray[np.int8]
"""(n, C): 1 the class is in the image, 0 it is not, -1 the image does not count for the class."""
Shares: TypeAlias = NDArray[np.float32]
"""(n, C) in [0, 1]: part of the picture under the class's largest box; 0 without a box, NaN unknown."""
Preset: TypeAlias = Literal["voc", "coco", "nus"]


@dataclass(frozen=True, eq=False)
class Split:
    """Images in the order of their list.

    Attributes:
        name: the data set's own, such as "trainval".
        labels: None of a split to learn from: learning must not see them.
        shares: sizes of the objects, where the data set has boxes.
    """

    name: str
    paths: tuple[Path, ...]
    labels: Labels | None = None
    shares: Shares | None = None

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: Sequence[int] | slice) -> Split:
        """Some of the images, in the order given."""
        places = np.arange(len(self))[rows]
        return replace(
            self,
            paths=tuple(self.paths[i] for i in places),
            labels=None if self.labels is None else self.labels[places],
            shares=None if self.shares is None else self.shares[places],
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images to learn from without labels, images to test on, and the classes.

    Attributes:
        rule: how labels were made of the annotation, in words.
        preset: whose constants the published code uses on it.
        notes: what differs from the published data set, in words; empty if nothing.
    """

    name: str
    classes: tuple[str, ...]
    learn: Split
    test: Split
    rule: str
    preset: Preset | None = None
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> Labels:
        """Of the test images."""
        if self.test.labels is None:
            raise InputError(f"The test images of {self.name} have no labels.")
        return self.test.labels

    def in_order_of(self, classes: Sequence[str]) -> Dataset:
        """The same with its classes in another order, such as that of a saved model."""
        if sorted(classes) != sorted(self.classes):
            extra = [name for name in classes if name not in self.classes]
            lacking = [name for name in self.classes if name not in classes]
            shown = [", ".join(map(repr, some[:5])) or "none" for some in (extra, lacking)]
            raise InputError(
                f"The classes are not those of {self.name}: {shown[0]} too many, {shown[1]} missing. Use a "
                "model of its classes, or --fit."
            )
        columns = [self.classes.index(name) for name in classes]
        test = replace(
            self.test,
            labels=self.labels[:, columns],
            shares=None if self.test.shares is None else self.test.shares[:, columns],
        )
        return replace(self, classes=tuple(classes), test=test)

    def limited(self, count: int | None) -> Dataset:
        """The first `count` images of each split, with a note; all of them for None."""
        if count is None:
            return self
        if count < 1:
            raise InputError(f"A limit of images must be at least 1, not {count}.")
        note = f"only the first {count} images of each split"
        return replace(
            self,
            learn=self.learn.take(slice(count)),
            test=self.test.take(slice(count)),
            notes=(*self.notes, note),
        )


class Shortfalls:
    """Collects how a data set on disk falls short: an error, or notes where that is allowed."""

    def __init__(self, name: str, root: Path, *, partial: bool) -> None:
        self.name, self.root, self.partial = name, root, partial
        self.notes: list[str] = []

    def add(self, note: str) -> None:
        self.notes.append(note)

    def existing(self, split: Split) -> Split:
        """The split without images that have no file; their absence is noted."""
        lost = absent(split.paths)
        if not lost:
            return split
        first = split.paths[min(lost)]
        self.add(f"{len(lost)} of {len(split)} images of {split.name} are missing, such as {first}")
        return split.take([i for i in range(len(split)) if i not in lost])

    def count(self, split: Split, expected: int) -> None:
        """Note a number of images that is not the published one."""
        if len(split) != expected:
            self.add(f"{split.name} has {len(split)} images in place of {expected}")

    def settle(self) -> tuple[str, ...]:
        """The notes, if falling short is allowed, else an error that tells all of them."""
        if self.notes and not self.partial:
            raise InputError(
                f"{self.root} does not hold the published {self.name}: {'; '.join(self.notes)}. Complete it, "
                "or evaluate on what is there with --partial (partial=True); the result then says so."
            )
        return tuple(self.notes)


def absent(paths: Sequence[Path]) -> set[int]:
    """Places of the paths without a file: each folder is listed once, no file is opened."""
    by_folder: defaultdict[Path, list[int]] = defaultdict(list)
    for place, path in enumerate(paths):
        by_folder[path.parent].append(place)
    lost: set[int] = set()
    for folder, places in by_folder.items():
        try:
            with os.scandir(folder) as entries:
                names = {entry.name for entry in entries}
        except (OSError, ValueError):  # ValueError: a NUL character in the path
            names = set()
        lost.update(place for place in places if paths[place].name not in names)
    return lost


def inside(folder: Path, name: str, where: str) -> Path:
    """folder / name, refusing names that lead out of the folder."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts or "\0" in name:
        raise InputError(
            f"{where} names the image {name!r}, which is not below {folder}. Write paths relative to it."
        )
    return folder / name


def first_existing(candidates: Iterable[Path], wanted: str) -> Path:
    """The first of the paths that is there."""
    tried = list(candidates)
    for path in tried:
        if path.exists():
            return path
    raise InputError(
        f"There is no {wanted}: looked for {', '.join(map(str, tried))}. Check --root."
    )


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 text file without the blank ones."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a text file: {error}.") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def refuse_repeats(ids: Sequence[str], path: Path) -> None:
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise InputError(f"{path} lists {twice!r} twice. Remove one of the two lines.")
