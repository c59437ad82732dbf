"""A folder of one's own images with a table of labels, CSV or JSONL."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from piaa.datasets.base import (
    Dataset,
    Shortfalls,
    Split,
    first_existing,
    inside,
    read_lines,
    refuse_repeats,
)
from piaa.errors import InputError, UnknownNameError

RULE = "labels as given in the table"
SPLITS = ("learn", "test")


class _Row(NamedTuple):
    image: str
    labels: list[str]
    split: str | None


def open_folder(name: str, root: Path, *, partial: bool = False) -> Dataset:
    """labels.csv (columns image, labels, and split if wanted) or labels.jsonl with these keys.

    In a CSV the labels of an image are separated by ";". `split` is "learn" or "test"; without it every
    image is tested on, and learnt from without its labels. classes.txt, if there, gives names and order;
    else they are the labels in alphabetical order.
    """
    table = first_existing([root / "labels.csv", root / "labels.jsonl"], "table of labels")
    rows = _read_csv(table) if table.suffix == ".csv" else _read_jsonl(table)
    if not rows:
        raise InputError(f"{table} has no image.")
    refuse_repeats([row.image for row in rows], table)
    listed = root / "classes.txt"
    found = {label for row in rows for label in row.labels}
    classes = tuple(read_lines(listed)) if listed.is_file() else tuple(sorted(found))
    for label in sorted(found - set(classes)):
        raise UnknownNameError(f"label in {table}", label, classes)
    if not classes:
        raise InputError(f"{table} has no label at all. Give some, or a classes.txt beside it.")
    shortfalls = Shortfalls(name, root, partial=partial)
    splits = {row.split for row in rows}
    if None in splits and len(splits) > 1:
        raise InputError(f"{table} gives a split for some images only. Give it for all, or none.")
    together = splits == {None}
    learn, test = (shortfalls.existing(_split(root, part, rows, classes, table)) for part in SPLITS)
    notes = shortfalls.settle()
    if together:
        notes += ("no split given: learnt from the images it is tested on, without their labels",)
    if not len(test):
        raise InputError(f"{table} has no image to test on: give some the split 'test'.")
    learn = Split(learn.name, learn.paths)
    return Dataset(name, classes, learn, test, RULE, notes=notes)


def _split(root: Path, part: str, rows: list[_Row], classes: tuple[str, ...], table: Path) -> Split:
    mine = [row for row in rows if row.split in (None, part)]
    columns = {name: column for column, name in enumerate(classes)}
    labels = np.zeros((len(mine), len(classes)), dtype=np.int8)
    for place, row in enumerate(mine):
        labels[place, [columns[label] for label in row.labels]] = 1
    return Split(part, tuple(inside(root, row.image, str(table)) for row in mine), labels)


def _read_csv(path: Path) -> list[_Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            entries = list(reader)
            header = reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a CSV file: {error}.") from error
    if not {"image", "labels"} <= set(header):
        raise InputError(f"{path} needs the columns image and labels, not {', '.join(header)}.")
    return [
        _row(
            {
                "image": entry["image"],
                "labels": [
                    part.strip() for part in (entry["labels"] or "").split(";") if part.strip()
                ],
                "split": entry.get("split") or None,
            },
            f"line {number} of {path}",
        )
        for number, entry in enumerate(entries, start=2)
    ]


def _read_jsonl(path: Path) -> list[_Row]:
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        where = f"line {number} of {path}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON: {error}.") from error
        rows.append(_row(entry, where))
    return rows


def _row(entry: Any, where: str) -> _Row:
    known = isinstance(entry, dict) and isinstance(entry.get("image"), str)
    labels = entry.get("labels") if known else None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise InputError(f"{where} needs an image and a list of labels, not {str(entry)[:100]!r}.")
    split = entry.get("split")
    if split is not None and split not in SPLITS:
        raise InputError(f"{where} has the split {split!r}; accepted are {' and '.join(SPLITS)}.")
    return _Row(entry["image"], labels, split)
