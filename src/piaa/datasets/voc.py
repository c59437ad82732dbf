"""PASCAL VOC 2007 and 2012 in the layout of the devkit."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple
from xml.etree import ElementTree

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
from piaa.datasets.names import VOC
from piaa.errors import InputError, UnknownNameError

Difficult = Literal["negative", "positive", "ignore"]

RULES: Final[dict[str, str]] = {
    "negative": "objects marked difficult count as absent",
    "positive": "objects marked difficult count as present",
    "ignore": "images with only difficult objects of a class do not count for it",
}


class _Published(NamedTuple):
    folder: str
    learn: str
    n_learn: int
    test: str
    n_test: int


# The paper learns from train and tests on val where the labels of test are not public.
_SETS = {
    "voc2007": _Published("VOC2007", "trainval", 5011, "test", 4952),
    "voc2012": _Published("VOC2012", "train", 5717, "val", 5823),
}


def open_voc(
    name: str, root: Path, *, partial: bool = False, difficult: Difficult = "negative"
) -> Dataset:
    """voc2007 or voc2012 below `root`: the devkit, its parent, or the year's own folder."""
    if difficult not in RULES:
        raise UnknownNameError("rule for difficult objects", difficult, RULES)
    published = _SETS[name]
    places = (root / published.folder, root / "VOCdevkit" / published.folder, root)
    base = first_existing(
        (place / "ImageSets" / "Main" / f"{published.test}.txt" for place in places),
        f"list of the test images of {name}",
    ).parents[2]
    shortfalls = Shortfalls(name, root, partial=partial)
    learn = shortfalls.existing(_listed(base, published.learn))
    test = shortfalls.existing(_listed(base, published.test))
    shortfalls.count(learn, published.n_learn)
    shortfalls.count(test, published.n_test)
    notes = shortfalls.settle()
    return Dataset(
        name=name,
        classes=tuple(VOC.values()),
        learn=learn,
        test=_annotated(base, test, difficult),
        rule=RULES[difficult],
        preset="voc",
        notes=notes,
    )


def _listed(base: Path, split: str) -> Split:
    path = first_existing([base / "ImageSets" / "Main" / f"{split}.txt"], f"list {split}.txt")
    ids = [line.split()[0] for line in read_lines(path)]
    refuse_repeats(ids, path)
    folder = base / "JPEGImages"
    return Split(split, tuple(inside(folder, f"{image}.jpg", str(path)) for image in ids))


def _annotated(base: Path, split: Split, difficult: Difficult) -> Split:
    words = {word: column for column, word in enumerate(VOC)}
    labels = np.zeros((len(split), len(words)), dtype=np.int8)
    shares = np.zeros((len(split), len(words)), dtype=np.float32)
    for row, image in enumerate(split.paths):
        path = base / "Annotations" / f"{image.stem}.xml"
        annotation = _parse(path)
        for thing in annotation.findall("object"):
            word = thing.findtext("name", "").strip()
            if word not in words:
                raise InputError(f"{path} names an object {word!r}, which is no class of VOC.")
            column = words[word]
            hard = thing.findtext("difficult", "0").strip() == "1"
            if hard and difficult == "ignore":
                labels[row, column] = labels[row, column] or -1
                continue
            if hard and difficult == "negative":
                continue
            labels[row, column] = 1
            # fmax: a box that is not given does not hide one that is.
            shares[row, column] = np.fmax(shares[row, column] or np.nan, _share(annotation, thing))
    return Split(split.name, split.paths, labels, shares)


def _share(annotation: ElementTree.Element, thing: ElementTree.Element) -> float:
    """Part of the picture under an object's box; NaN if sizes are not given."""

    def number(key: str, of: ElementTree.Element) -> float:
        return float(of.findtext(key, "nan"))

    try:
        area = number("size/width", annotation) * number("size/height", annotation)
        # Corners are pixels of the box, counted from 1.
        width = number("bndbox/xmax", thing) - number("bndbox/xmin", thing) + 1
        height = number("bndbox/ymax", thing) - number("bndbox/ymin", thing) + 1
    except ValueError:
        return float("nan")
    return float(np.clip(width * height / area, 0, 1)) if area > 0 else float("nan")


class _NoDoctype(ElementTree.TreeBuilder):
    """Annotations have no document type; entities, which could expand without end, are declared in one."""

    def doctype(self, name: str, _public: str | None, _system: str | None) -> None:
        raise InputError(f"it declares a document type {name!r}, which no VOC annotation does")


def _parse(path: Path) -> ElementTree.Element:
    try:
        parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314 -- see _NoDoctype
        parser.feed(path.read_bytes())
        root: ElementTree.Element = parser.close()
    # ValueError and LookupError: of a NUL in the path, and of encodings that Python does not have.
    except (OSError, ElementTree.ParseError, ValueError, LookupError) as error:
        raise InputError(f"{path} is not a VOC annotation: {error}.") from error
    return root
