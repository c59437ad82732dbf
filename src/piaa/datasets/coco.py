"""COCO 2014 and 2017, from their instances files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from piaa.datasets.base import Dataset, Shortfalls, Split, first_existing
from piaa.datasets.names import COCO
from piaa.errors import InputError

RULE = "images without any annotation are left out; regions marked as crowds count as present"
# Nine tenths of a file are outlines that labels do not need: lists of polygons, or run lengths of a crowd.
_OUTLINE = re.compile(rb'"segmentation"\s*:\s*(?:\[(?:\s*\[[^\[\]]*\]\s*,?)*\s*\]|\{[^{}]*\})')


class _Published(NamedTuple):
    learn: str
    n_learn: int
    test: str
    n_test: int


# Images with at least one annotation, as in the paper's lists (2014); 2017 by the same rule.
_SETS = {
    "coco2014": _Published("train2014", 82081, "val2014", 40137),
    "coco2017": _Published("train2017", 117266, "val2017", 4952),
}


class _Image(NamedTuple):
    id: int
    name: str
    area: float


class _Annotation(NamedTuple):
    image: int
    category: int
    area: float  # of the box, in pixels; NaN of a crowd, which is not one object


def open_coco(name: str, root: Path, *, partial: bool = False) -> Dataset:
    """coco2014 or coco2017 below `root`: annotations/ beside train2014/ ... or images/train2014/ ..."""
    published = _SETS[name]
    shortfalls = Shortfalls(name, root, partial=partial)
    learn = shortfalls.existing(_read(root, published.learn, labelled=False))
    test = shortfalls.existing(_read(root, published.test, labelled=True))
    shortfalls.count(learn, published.n_learn)
    shortfalls.count(test, published.n_test)
    notes = shortfalls.settle()
    return Dataset(name, COCO, learn, test, RULE, preset="coco", notes=notes)


def _read(root: Path, split: str, *, labelled: bool) -> Split:
    path = first_existing(
        [root / "annotations" / f"instances_{split}.json", root / f"instances_{split}.json"],
        f"instances file of {split}",
    )
    images, annotations, columns = _parse(path)
    rows = {image.id: image for image in images}
    for annotation in annotations:
        if annotation.image not in rows:
            raise InputError(f"{path} annotates image {annotation.image}, which it does not list.")
    shown = {annotation.image for annotation in annotations}
    listed = sorted((image for image in images if image.id in shown), key=lambda image: image.id)
    folder = first_existing([root / split, root / "images" / split], f"folder {split} of images")
    paths = tuple(folder / Path(image.name).name for image in listed)
    if not labelled:
        return Split(split, paths)
    labels = np.zeros((len(listed), len(COCO)), dtype=np.int8)
    shares = np.zeros((len(listed), len(COCO)), dtype=np.float32)
    place = {image.id: row for row, image in enumerate(listed)}
    for annotation in annotations:
        row, column = place[annotation.image], columns[annotation.category]
        labels[row, column] = 1
        area = rows[annotation.image].area
        share = np.clip(annotation.area / area, 0, 1) if area > 0 else np.nan
        shares[row, column] = np.fmax(shares[row, column] or np.nan, share)
    return Split(split, paths, labels, shares)


def _parse(path: Path) -> tuple[list[_Image], list[_Annotation], dict[int, int]]:
    """Images, annotations, and the class of each category id."""
    try:
        text = _OUTLINE.sub(b'"segmentation":0', path.read_bytes())
        content = json.loads(text, object_hook=_compact)
        images, annotations = content["images"], content["annotations"]
        categories = sorted(content["categories"], key=lambda category: int(category["id"]))
        names = tuple(category["name"] for category in categories)
        columns = {int(category["id"]): column for column, category in enumerate(categories)}
        complete = all(isinstance(image, _Image) for image in images) and all(
            isinstance(a, _Annotation) and a.category in columns for a in annotations
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} is not a COCO instances file: {error!r}.") from error
    if names != COCO:
        wrong = next((n for n in names if n not in COCO), f"{len(names)} names")
        raise InputError(f"{path} does not have the 80 categories of COCO, but {wrong!r}.")
    if not complete:
        raise InputError(
            f"{path} is not a COCO instances file: an image lacks id and file_name, or an annotation "
            "image_id, bbox and a known category_id."
        )
    return images, annotations, columns


def _compact(entry: dict[str, Any]) -> Any:
    """An object of the file as small as it gets, as soon as it has been read."""
    if "category_id" in entry:
        crowd = entry.get("iscrowd", 0)
        _, _, width, height = entry["bbox"]
        area = float("nan") if crowd else float(width) * float(height)
        return _Annotation(_whole(entry["image_id"]), _whole(entry["category_id"]), area)
    if "file_name" in entry:
        area = float(entry.get("width", 0)) * float(entry.get("height", 0))
        if not isinstance(entry["file_name"], str):
            raise TypeError(f"the file_name {entry['file_name']!r}")
        return _Image(_whole(entry["id"]), entry["file_name"], area)
    return entry


def _whole(number: object) -> int:
    if not isinstance(number, int):
        raise TypeError(f"the id {number!r}")
    return number
