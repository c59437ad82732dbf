from __future__ import annotations

from pathlib import Path

import pytest
from devkits import make_voc

from piaa.datasets import list_datasets, names, open_dataset
from piaa.errors import InputError, UnknownNameError


def test_the_seven() -> None:
    assert list_datasets() == [
        "voc2007", "voc2012", "coco2014", "coco2017", "nuswide", "folder", "lists",
    ]  # fmt: skip
    assert [len(some) for some in (names.VOC, names.COCO, names.NUS)] == [20, 80, 81]


def test_unknown_names_and_roots(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="'voc2007'"):
        open_dataset("voc07", tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        open_dataset("voc2007", tmp_path / "nowhere")
    with pytest.raises(InputError, match="for voc2007 and voc2012, not for folder"):
        open_dataset("folder", tmp_path, difficult="ignore")


def test_limits_are_noted(tmp_path: Path) -> None:
    things = [("dog", (1, 1, 10, 10), False)]
    images = {f"{i:06d}": things for i in range(6)}
    make_voc(tmp_path, {"trainval": dict(list(images.items())[:4]), "test": images})
    dataset = open_dataset("voc2007", tmp_path, partial=True)
    few = dataset.limited(2)
    assert (len(few.learn), len(few.test), few.labels.shape) == (2, 2, (2, 20))
    assert few.notes[-1] == "only the first 2 images of each split"
    assert dataset.limited(None) is dataset
    with pytest.raises(InputError, match="at least 1"):
        dataset.limited(0)


def test_a_split_takes_rows_of_everything(tmp_path: Path) -> None:
    make_voc(
        tmp_path,
        {"trainval": {"x": []}, "test": {"a": [], "b": [("cow", (1, 1, 9, 9), False)], "c": []}},
    )
    test = open_dataset("voc2007", tmp_path, partial=True).test.take([1])
    assert [path.stem for path in test.paths] == ["b"]
    assert test.labels is not None
    assert test.shares is not None
    assert (test.labels.sum(), test.shares.shape) == (1, (1, 20))
