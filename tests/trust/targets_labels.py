"""Fuzz targets: class lists and the label files of all data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from target import Target, tree_or_bytes

from piaa import ClassList
from piaa.datasets import open_dataset
from piaa.datasets.names import COCO


def class_lists(_: Path) -> Target:
    seeds = [
        b"cat\ndog: hound, puppy\n# a comment\n\nsofa: couch\n",
        "\ufeffKatze\r\nHündin\r\n自転車: 二輪車\r\n".encode(),
    ]

    def accepts(data: bytes, place: Path) -> bool:
        (place / "classes.txt").write_bytes(data)
        found = ClassList.of(place / "classes.txt")
        assert ClassList.from_dict(json.loads(json.dumps(found.to_dict()))) == found
        found.prompts("a photo of a {}.")
        return True

    return Target(seeds, accepts)


def _data_set(
    name: str, file: str, beside: dict[str, bytes], seeds: list[bytes], **options: Any
) -> Target:
    def accepts(data: bytes, place: Path) -> bool:
        root = place / "root"
        for path, content in {**beside, file: data}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        found = open_dataset(name, root, partial=True, **options)
        assert set(np.unique(found.labels)) <= {-1, 0, 1}
        shares = np.zeros(1) if found.test.shares is None else found.test.shares
        assert (np.isnan(shares) | ((shares >= 0) & (shares <= 1))).all(), shares
        for path in (*found.learn.paths, *found.test.paths):
            assert ".." not in path.relative_to(root).parts, f"{path} leads out of its folder"
        return True

    tree = seeds[0][:1] in (b"{", b"[")
    return Target(seeds, accepts, tree_or_bytes(seeds) if tree else None)


_XML = (
    b"<annotation><size><width>100</width><height>50</height></size><object><name>cat</name><difficult>0"
    b"</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object></annotation>"
)

_VOC = "VOC2007/"
_VOC_FILES = {
    f"{_VOC}ImageSets/Main/trainval.txt": b"000001\n",
    f"{_VOC}ImageSets/Main/test.txt": b"000002\n000003 1\n",
    f"{_VOC}Annotations/000002.xml": _XML,
    f"{_VOC}Annotations/000003.xml": _XML,
    **{f"{_VOC}JPEGImages/00000{i}.jpg": b"" for i in (1, 2, 3)},
}


def voc_annotations(_: Path) -> Target:
    return _data_set("voc2007", f"{_VOC}Annotations/000002.xml", _VOC_FILES, [_XML])


def voc_lists(_: Path) -> Target:
    return _data_set(
        "voc2007", f"{_VOC}ImageSets/Main/test.txt", _VOC_FILES, [b"000002\n000003 1\n"]
    )


def coco_instances(_: Path) -> Target:
    content = {
        "images": [{"id": i, "file_name": f"{i}.jpg", "width": 20, "height": 10} for i in (1, 2)],
        "annotations": [
            {"id": 5, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 0,
             "segmentation": [[1, 2, 3, 4]]},
            {"id": 6, "image_id": 2, "category_id": 4, "bbox": [1, 2, 3, 4], "iscrowd": 1,
             "segmentation": {"counts": [1, 2], "size": [3, 4]}},
        ],
        "categories": [{"id": 1 + i, "name": name} for i, name in enumerate(COCO)],
    }  # fmt: skip
    seed = json.dumps(content).encode()
    beside = {
        "annotations/instances_train2017.json": seed,
        **{f"{split}/{i}.jpg": b"" for split in ("train2017", "val2017") for i in (1, 2)},
    }
    return _data_set("coco2017", "annotations/instances_val2017.json", beside, [seed])


def label_lists(_: Path) -> Target:
    beside = {
        "classes.txt": b"cat\ndining table\n",
        "learn.txt": b"a.jpg\n",
        **{f"images/{name}": b"" for name in ("a.jpg", "b.jpg", "c/d.png")},
    }
    seeds = [b"b.jpg 0 dining_table\nc/d.png cat\n", b"a 1\n"]
    return _data_set("lists", "test.txt", beside, seeds)


def label_tables(_: Path) -> Target:
    beside = {"a.jpg": b"", "b/c.png": b""}
    return _data_set("folder", "labels.csv", beside, [
        b"image,labels,split\na.jpg,cat;dog,test\nb/c.png,,learn\n", b'image,labels\n"a.jpg","cat"\n',
    ])  # fmt: skip


def label_lines(_: Path) -> Target:
    lines = [{"image": "a.jpg", "labels": ["cat", "dog"]}, {"image": "b/c.png", "labels": ["cat"]}]
    seed = "\n".join(map(json.dumps, lines)).encode()
    return _data_set("folder", "labels.jsonl", {"a.jpg": b"", "b/c.png": b""}, [seed])
