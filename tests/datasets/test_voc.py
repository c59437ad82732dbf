from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from devkits import make_voc, write

from piaa.datasets import open_dataset
from piaa.errors import InputError, UnknownNameError

DOG, CAT, PERSON, TABLE = 11, 7, 14, 10
FULL, TENTH = (1, 1, 100, 50), (1, 1, 25, 20)  # of a picture of 100 x 50


@pytest.fixture
def devkit(tmp_path: Path) -> Path:
    make_voc(
        tmp_path,
        {
            "trainval": {"000005": [], "000007": []},
            "test": {
                "000001": [("dog", TENTH, False), ("dog", FULL, False), ("person", FULL, True)],
                "000002": [("cat", TENTH, True), ("cat", TENTH, False)],
                "000009": [("diningtable", TENTH, False)],
            },
        },
    )
    return tmp_path


def test_labels_of_the_paper(devkit: Path) -> None:
    dataset = open_dataset("voc2007", devkit, partial=True)
    assert dataset.classes[TABLE] == "dining table"
    assert (len(dataset.classes), dataset.preset) == (20, "voc")
    assert [path.name for path in dataset.test.paths] == ["000001.jpg", "000002.jpg", "000009.jpg"]
    expected = np.zeros((3, 20))
    expected[0, DOG] = expected[1, CAT] = expected[2, TABLE] = 1
    np.testing.assert_array_equal(dataset.labels, expected)


def test_labels_to_learn_from_are_not_even_read(devkit: Path) -> None:
    for name in ("000005", "000007"):
        (devkit / "VOC2007/Annotations" / f"{name}.xml").unlink()
    learn = open_dataset("voc2007", devkit, partial=True).learn
    assert learn.labels is None
    assert len(learn) == 2


def test_sizes_are_of_the_largest_box(devkit: Path) -> None:
    shares = open_dataset("voc2007", devkit, partial=True).test.shares
    assert shares is not None
    assert shares[0, DOG] == 1
    assert shares[1, CAT] == pytest.approx(0.1)
    assert shares[0, PERSON] == 0


def test_sizes_that_are_not_given(devkit: Path) -> None:
    without = "<annotation><object><name>dog</name></object></annotation>"
    write(devkit / "VOC2007/Annotations/000001.xml", without)
    dataset = open_dataset("voc2007", devkit, partial=True)
    assert dataset.labels[0, DOG] == 1
    assert dataset.test.shares is not None
    assert np.isnan(dataset.test.shares[0, DOG])


def test_difficult_objects(devkit: Path) -> None:
    positive = open_dataset("voc2007", devkit, partial=True, difficult="positive")
    ignored = open_dataset("voc2007", devkit, partial=True, difficult="ignore")
    assert positive.labels[0, PERSON] == 1
    assert ignored.labels[0, PERSON] == -1
    assert ignored.labels[1, CAT] == 1, "an easy cat beside the difficult one"
    assert "difficult" in ignored.rule
    with pytest.raises(UnknownNameError, match="negative, positive, ignore"):
        open_dataset("voc2007", devkit, difficult="maybe")  # type: ignore[arg-type]


def test_counts_are_the_published_ones(devkit: Path) -> None:
    with pytest.raises(InputError, match=r"trainval has 2 images in place of 5011.*--partial"):
        open_dataset("voc2007", devkit)
    notes = open_dataset("voc2007", devkit, partial=True).notes
    assert notes == (
        "trainval has 2 images in place of 5011",
        "test has 3 images in place of 4952",
    )


def test_missing_images_are_named_or_left_out(devkit: Path) -> None:
    (devkit / "VOC2007/JPEGImages/000002.jpg").unlink()
    with pytest.raises(
        InputError, match=r"1 of 3 images of test are missing, such as .*000002.jpg"
    ):
        open_dataset("voc2007", devkit)
    dataset = open_dataset("voc2007", devkit, partial=True)
    assert [path.stem for path in dataset.test.paths] == ["000001", "000009"]
    assert dataset.labels.shape == (2, 20)
    assert dataset.labels[1, TABLE] == 1


@pytest.mark.parametrize("place", ["", "VOC2012", "VOCdevkit"])
def test_2012_learns_from_train_and_tests_on_val(tmp_path: Path, place: str) -> None:
    inner = tmp_path / "VOCdevkit" if place == "VOCdevkit" else tmp_path
    base = make_voc(inner, {"train": {"a": []}, "val": {"b": [("sofa", FULL, False)]}}, year=2012)
    dataset = open_dataset("voc2012", base if place == "VOC2012" else tmp_path, partial=True)
    assert [path.stem for path in dataset.learn.paths + dataset.test.paths] == ["a", "b"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entity_bombs_are_refused(devkit: Path, encoding: str) -> None:
    lols = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
    bomb = f'<!DOCTYPE x [<!ENTITY l0 "lol">{lols}]><annotation>&l9;</annotation>'
    header = f'<?xml version="1.0" encoding="{encoding}"?>'
    (devkit / "VOC2007/Annotations/000001.xml").write_bytes((header + bomb).encode(encoding))
    with pytest.raises(InputError, match=r"000001.xml is not a VOC annotation.*document type"):
        open_dataset("voc2007", devkit, partial=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<annotation>", "is not a VOC annotation"),
        ("<annotation><object><name>yak</name></object></annotation>", "'yak'"),
    ],
)
def test_broken_annotations(devkit: Path, content: str, message: str) -> None:
    write(devkit / "VOC2007/Annotations/000001.xml", content)
    with pytest.raises(InputError, match=message):
        open_dataset("voc2007", devkit, partial=True)


def test_lists_that_repeat_an_image(devkit: Path) -> None:
    write(devkit / "VOC2007/ImageSets/Main/test.txt", "000001\n000001\n")
    with pytest.raises(InputError, match="'000001' twice"):
        open_dataset("voc2007", devkit, partial=True)


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no list of the test images of voc2007.*VOCdevkit"):
        open_dataset("voc2007", tmp_path)
