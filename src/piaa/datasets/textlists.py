"""Text files of "id label label ..." lines, the simplest form in which benchmarks are passed on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from piaa.datasets.base import (
    Dataset,
    Labels,
    Shortfalls,
    Split,
    first_existing,
    inside,
    read_lines,
    refuse_repeats,
)
from piaa.errors import InputError, UnknownNameError
from piaa.images.formats import SUFFIXES

RULE = "labels as listed"


def open_lists(name: str, root: Path, *, partial: bool = False) -> Dataset:
    """classes.txt (one name a line), learn.txt or train.txt, and test.txt or val.txt below `root`.

    A label is the number of its class, from 0, or its name with _ in place of spaces. An id without a
    suffix is a .jpg; images are in images/ or right below `root`.
    """
    classes = tuple(read_lines(first_existing([root / "classes.txt"], "file of class names")))
    folder = first_existing([root / "images", root], "folder of images")
    learn_list = first_existing([root / "learn.txt", root / "train.txt"], "list to learn from")
    test_list = first_existing([root / "test.txt", root / "val.txt"], "list to test on")
    shortfalls = Shortfalls(name, root, partial=partial)
    learn = Split(learn_list.stem, read_list(learn_list, folder, classes)[0])
    test = Split(test_list.stem, *read_list(test_list, folder, classes))
    learn, test = shortfalls.existing(learn), shortfalls.existing(test)
    notes = shortfalls.settle()
    return Dataset(name, classes, learn, test, RULE, notes=notes)


def read_list(path: Path, folder: Path, classes: Sequence[str]) -> tuple[tuple[Path, ...], Labels]:
    """Paths below `folder` and labels (n, C) of a list file."""
    rows = [line.split() for line in read_lines(path)]
    refuse_repeats([row[0] for row in rows], path)
    columns = {name.replace(" ", "_"): column for column, name in enumerate(classes)}
    labels = np.zeros((len(rows), len(classes)), dtype=np.int8)
    paths = []
    for place, (image, *given) in enumerate(rows):
        suffix = "" if Path(image).suffix.lower() in SUFFIXES else ".jpg"
        paths.append(inside(folder, image + suffix, str(path)))
        for label in given:
            labels[place, _column(label, columns, path)] = 1
    if not rows:
        raise InputError(f"{path} lists no image.")
    return tuple(paths), labels


def _column(label: str, columns: dict[str, int], path: Path) -> int:
    if label in columns:
        return columns[label]
    # Python refuses to convert thousands of digits.
    if label.isdecimal() and len(label) < 10 and int(label) < len(columns):
        return int(label)
    raise UnknownNameError(f"label in {path}", label, columns)
