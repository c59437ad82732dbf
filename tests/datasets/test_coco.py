from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from devkits import make_coco

from piaa.datasets import open_dataset
from piaa.datasets.names import COCO
from piaa.errors import InputError

PERSON, MOUSE, BRUSH = COCO.index("person"), COCO.index("mouse"), COCO.index("toothbrush")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    box = (10, 10, 20, 10)  # a hundredth of a picture of 200 x 100
    make_coco(tmp_path, "train2014", {3: [("cat", box, False)], 5: []})
    make_coco(
        tmp_path,
        "val2014",
        {
            900: [("toothbrush", box, False), ("toothbrush", (0, 0, 200, 50), False)],
            7: [("person", (0, 0, 200, 100), True)],
            42: [],
            41: [("person", (0, 0, 200, 100), True), ("person", box, False), ("mouse", box, False)],
        },
    )
    return tmp_path


def test_labels(root: Path) -> None:
    dataset = open_dataset("coco2014", root, partial=True)
    assert dataset.classes == COCO
    assert [path.name for path in dataset.test.paths] == [
        f"COCO_val2014_{i:012d}.jpg" for i in (7, 41, 900)
    ], "by id; images without an annotation are left out"
    expected = np.zeros((3, 80))
    expected[0, PERSON] = expected[1, [PERSON, MOUSE]] = expected[2, BRUSH] = 1
    np.testing.assert_array_equal(dataset.labels, expected)
    assert len(dataset.learn) == 1
    assert dataset.learn.labels is None


def test_sizes_leave_crowds_out(root: Path) -> None:
    shares = open_dataset("coco2014", root, partial=True).test.shares
    assert shares is not None
    assert np.isnan(shares[0, PERSON]), "only a crowd: no object's size is known"
    assert shares[1, PERSON] == pytest.approx(0.01), "the crowd beside it does not count"
    assert shares[2, BRUSH] == pytest.approx(0.5)


def test_counts(root: Path) -> None:
    with pytest.raises(
        InputError, match=r"train2014 has 1 images in place of 82081; val2014 has 3"
    ):
        open_dataset("coco2014", root)


def test_2017_and_the_other_place_of_images(tmp_path: Path) -> None:
    for split in ("train2017", "val2017"):
        make_coco(tmp_path, split, {12: [("dog", (0, 0, 1, 1), False)]})
        (tmp_path / "images").mkdir(exist_ok=True)
        (tmp_path / split).rename(tmp_path / "images" / split)
    dataset = open_dataset("coco2017", tmp_path, partial=True)
    assert dataset.test.paths[0].is_file()
    assert dataset.notes[1] == "val2017 has 1 images in place of 4952"


def test_a_name_cannot_lead_out_of_the_folder(root: Path) -> None:
    path = root / "annotations/instances_val2014.json"
    path.write_text(path.read_text().replace("COCO_val2014_000000000007", "../../secret"))
    dataset = open_dataset("coco2014", root, partial=True)
    assert len(dataset.test) == 2
    assert any("are missing" in note for note in dataset.notes)


def change(content: dict, what: str) -> None:
    if what == "category":
        content["categories"][0]["name"] = "yak"
    elif what == "image":
        content["annotations"][0]["image_id"] = 0
    elif what == "file":
        del content["images"][0]["file_name"]
    elif what == "box":
        del content["annotations"][0]["bbox"]
    else:
        content["annotations"][0]["category_id"] = 99


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("category", "80 categories of COCO, but 'yak'"),
        ("image", "annotates image 0, which it does not list"),
        ("file", "lacks id and file_name"),
        ("box", "is not a COCO instances file"),
        ("id", "known category_id"),
    ],
)
def test_files_that_are_something_else(root: Path, what: str, message: str) -> None:
    path = root / "annotations/instances_val2014.json"
    content = json.loads(path.read_text())
    change(content, what)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        open_dataset("coco2014", root, partial=True)


def test_not_json(root: Path) -> None:
    (root / "annotations/instances_val2014.json").write_text("{")
    with pytest.raises(InputError, match=r"instances_val2014.json is not a COCO instances file"):
        open_dataset("coco2014", root, partial=True)
