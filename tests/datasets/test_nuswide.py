from __future__ import annotations

from pathlib import Path

import pytest
from devkits import make_nus_official, touch, write

from piaa.datasets import open_dataset
from piaa.datasets.names import NUS
from piaa.errors import InputError


@pytest.fixture
def official(tmp_path: Path) -> Path:
    make_nus_official(
        tmp_path,
        {
            "Train": {"actor/0001_1.jpg": ["person"], "zoo/0002_2.jpg": []},
            "Test": {
                "actor/0003_3.jpg": ["airport", "zebra"],
                "zoo/0001_1.jpg": [],
                "zoo/0004_4.jpg": ["sky"],
            },
        },
    )
    return tmp_path


def concepts(row: object) -> list[str]:
    return [name for name, value in zip(NUS, row, strict=True) if value]  # type: ignore[call-overload]


def test_official_lists(official: Path) -> None:
    dataset = open_dataset("nuswide", official, partial=True)
    assert (len(dataset.classes), dataset.preset) == (81, "nus")
    found = [concepts(row) for row in dataset.labels]
    assert found == [["airport", "zebra"], [], ["sky"]], "images without a label are kept"
    assert [str(p.relative_to(official)) for p in dataset.learn.paths] == [
        "Flickr/actor/0001_1.jpg",
        "Flickr/zoo/0002_2.jpg",
    ]


def test_the_official_split_is_not_the_papers(official: Path) -> None:
    with pytest.raises(
        InputError, match=r"nuswideval_labels.txt are not there.*in place of 150000"
    ):
        open_dataset("nuswide", official)


def test_the_papers_lists_come_first(official: Path) -> None:
    write(official / "imageset/nuswidetrain_labels.txt", "actor/0001_1 42\nzoo/0002_2\n")
    write(official / "imageset/nuswideval_labels.txt", "zoo/0001_1 1 80\nactor/0003_3\n")
    dataset = open_dataset("nuswide", official, partial=True)
    assert [concepts(row) for row in dataset.labels] == [["animal", "zebra"], []]
    assert dataset.learn.labels is None
    assert dataset.notes == (
        "train has 2 images in place of 150000",
        "val has 2 images in place of 60260",
    )


def test_images_that_flickr_has_lost(official: Path) -> None:
    (official / "Flickr/zoo/0001_1.jpg").unlink()
    dataset = open_dataset("nuswide", official, partial=True)
    assert [concepts(row) for row in dataset.labels] == [["airport", "zebra"], ["sky"]]
    assert "1 of 3 images of Test are missing" in dataset.notes[1]


def test_labels_that_do_not_fit_the_list(official: Path) -> None:
    write(official / "Groundtruth/TrainTestLabels/Labels_cow_Test.txt", "1\n0\n")
    with pytest.raises(InputError, match=r"Labels_cow_Test.txt must hold .* 3 images"):
        open_dataset("nuswide", official, partial=True)


def test_names_that_lead_elsewhere(official: Path) -> None:
    write(official / "nuswidetrain_labels.txt", "../x 1\n")
    write(official / "nuswideval_labels.txt", "zoo/0001_1 1\n")
    touch(official / "x.jpg")
    with pytest.raises(InputError, match="not below"):
        open_dataset("nuswide", official, partial=True)
