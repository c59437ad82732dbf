"""A VOC devkit as lists: image paths and labels, objects marked difficult counted as absent."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import torch
from torch import Tensor

# The devkit's own words, and the words the paper asks an encoder for.
NAMES = {
    "aeroplane": "aeroplane", "bicycle": "bicycle", "bird": "bird", "boat": "boat",
    "bottle": "bottle", "bus": "bus", "car": "car", "cat": "cat", "chair": "chair", "cow": "cow",
    "diningtable": "dining table", "dog": "dog", "horse": "horse", "motorbike": "motorbike",
    "person": "person", "pottedplant": "potted plant", "sheep": "sheep", "sofa": "sofa",
    "train": "train", "tvmonitor": "tv monitor",
}  # fmt: skip


def read_split(root: Path, split: str, limit: int | None = None) -> tuple[list[Path], Tensor]:
    """Paths and labels (n, 20) of `trainval` or `test`, in the order of the list file."""
    lists = sorted(root.rglob(f"ImageSets/Main/{split}.txt"))
    if not lists:
        raise SystemExit(
            f"No ImageSets/Main/{split}.txt below {root}: give the folder of a VOC devkit."
        )
    base = lists[0].parents[2]
    ids = lists[0].read_text().split()[:limit]
    words = list(NAMES)
    labels = torch.zeros(len(ids), len(words), dtype=torch.int64)
    for row, image in enumerate(ids):
        tree = ElementTree.parse(base / "Annotations" / f"{image}.xml")
        for thing in tree.iter("object"):
            if thing.findtext("difficult", "0").strip() != "1":
                labels[row, words.index(thing.findtext("name", "").strip())] = 1
    return [base / "JPEGImages" / f"{image}.jpg" for image in ids], labels
