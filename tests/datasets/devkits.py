"""Miniature data sets in their publishers' layouts. Image files are empty: listing must not open them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from piaa.datasets.names import COCO, NUS

Thing = tuple[str, tuple[int, int, int, int], bool]
"""Devkit name, (xmin, ymin, xmax, ymax), difficult."""


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def voc_annotation(things: Sequence[Thing], size: tuple[int, int] = (100, 50)) -> str:
    objects = "".join(
        f"<object><name>{name}</name><difficult>{int(hard)}</difficult><bndbox><xmin>{box[0]}</xmin>"
        f"<ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox>"
        # Layout annotations of people: a part is not an object of its own.
        f"<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part></object>"
        for name, box, hard in things
    )
    width, height = size
    return f"<annotation><size><width>{width}</width><height>{height}</height></size>{objects}</annotation>"


def make_voc(
    root: Path, splits: Mapping[str, Mapping[str, Sequence[Thing]]], *, year: int = 2007
) -> Path:
    base = root / f"VOC{year}"
    for split, images in splits.items():
        write(base / "ImageSets/Main" / f"{split}.txt", "".join(f"{name}\n" for name in images))
        for name, things in images.items():
            touch(base / "JPEGImages" / f"{name}.jpg")
            write(base / "Annotations" / f"{name}.xml", voc_annotation(things))
    return base


def coco_ids() -> dict[str, int]:
    """Category ids with gaps, as the published ones have."""
    return {name: 1 + column + column // 10 for column, name in enumerate(COCO)}


def make_coco(
    root: Path,
    split: str,
    images: Mapping[int, Sequence[tuple[str, tuple[int, int, int, int], bool]]],
) -> Path:
    """Of each image id: (class, (x, y, width, height), crowd) in pictures of 200 x 100."""
    ids = coco_ids()
    content = {
        "info": {"year": 2014},
        "licenses": [{"id": 1, "name": "none", "url": ""}],
        "images": [
            {"id": i, "file_name": f"COCO_{split}_{i:012d}.jpg", "width": 200, "height": 100}
            for i in images
        ],
        "annotations": [
            {
                "id": 1000 * i + number,
                "image_id": i,
                "category_id": ids[name],
                "bbox": box,
                "area": 1,
                "iscrowd": int(crowd),
                "segmentation": {"counts": [1, 2], "size": [100, 200]} if crowd else [[1, 2, 3, 4]],
            }
            for i, things in images.items()
            for number, (name, box, crowd) in enumerate(things)
        ],
        # Not sorted: the order of classes comes from the ids.
        "categories": [
            {"id": number, "name": name, "supercategory": "thing"}
            for name, number in reversed(ids.items())
        ],
    }
    path = root / "annotations" / f"instances_{split}.json"
    write(path, json.dumps(content))
    for i in images:
        touch(root / split / f"COCO_{split}_{i:012d}.jpg")
    return path


def make_nus_official(root: Path, splits: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Of "Train" and "Test": image "folder/name.jpg" to its concepts."""
    for split, images in splits.items():
        lines = "".join(name.replace("/", "\\") + "\r\n" for name in images)
        write(root / "ImageList" / f"{split}Imagelist.txt", lines)
        for concept in NUS:
            values = "".join(f"{int(concept in concepts)}\n" for concepts in images.values())
            write(root / "Groundtruth/TrainTestLabels" / f"Labels_{concept}_{split}.txt", values)
        for name in images:
            touch(root / "Flickr" / name)
