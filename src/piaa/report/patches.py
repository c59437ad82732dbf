"""Which patches of a class's bank the page shows, and pictures of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from PIL import Image

from piaa.report.copies import photo_file
from piaa.report.entries import BankPatch

SHOWN_PATCHES: Final = 24
# A sky or a meadow can fill a bank: further patches of one photograph wait for the others.
_PER_PHOTOGRAPH = 2
_SIZE = 96


def choose(found: Sequence[tuple[int, BankPatch]]) -> list[tuple[int, BankPatch]]:
    """The surest patches of one class, first at most two a photograph; (entry, patch) in, and out."""
    ordered = sorted(found, key=lambda item: (-item[1].likelihood, item[0], item[1].cell))
    seen: Counter[int] = Counter()
    first: list[tuple[int, BankPatch]] = []
    later: list[tuple[int, BankPatch]] = []
    for item in ordered:
        seen[item[0]] += 1
        (first if seen[item[0]] <= _PER_PHOTOGRAPH else later).append(item)
    return [*first, *later][:SHOWN_PATCHES]


def write_crops(
    chosen: Mapping[int, Sequence[tuple[int, BankPatch]]], numbers: Sequence[int], folder: Path
) -> None:
    """Cut patches out of the copies of their photographs, opening each copy once.

    Args:
        chosen: for each class's column, (entry, patch).
        numbers: of the files of each entry.
    """
    by_entry: dict[int, list[BankPatch]] = defaultdict(list)
    for patches in chosen.values():
        for entry, patch in patches:
            by_entry[entry].append(patch)
    for entry, mine in sorted(by_entry.items()):
        with Image.open(photo_file(folder, numbers[entry])) as picture:
            width, height = picture.size
            for patch in mine:
                top, left, bottom, right = patch.box
                box = (left * width, top * height, right * width, bottom * height)
                crop = picture.resize((_SIZE, _SIZE), Image.Resampling.BICUBIC, box=box)
                crop.save(patch_file(folder, patch.column, entry, patch.cell), quality=85)


def patch_file(folder: Path, column: int, entry: int, cell: int) -> Path:
    return folder / "patches" / f"{column:04d}-{entry:06d}-{cell:04d}.jpg"
