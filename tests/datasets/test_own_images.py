"""Data sets of one's own: a folder with a table, and lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from devkits import touch, write

from piaa.datasets import Dataset, open_dataset
from piaa.errors import InputError, UnknownNameError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.jpg", "b.png", "sub/c.jpg"):
        touch(tmp_path / name)
    return tmp_path


def tags(dataset: Dataset) -> list[list[str]]:
    return [
        [name for name, value in zip(dataset.classes, row, strict=True) if value]
        for row in dataset.labels
    ]


def test_csv(folder: Path) -> None:
    write(folder / "labels.csv", 'image,labels\na.jpg,cat; dining table\nb.png,\n"sub/c.jpg",dog\n')
    dataset = open_dataset("folder", folder)
    assert dataset.classes == ("cat", "dining table", "dog")
    assert tags(dataset) == [["cat", "dining table"], [], ["dog"]]
    assert len(dataset.learn) == 3
    assert dataset.learn.labels is None
    assert dataset.notes == (
        "no split given: learnt from the images it is tested on, without their labels",
    )


def test_jsonl_with_a_split_and_classes(folder: Path) -> None:
    rows = [
        {"image": "a.jpg", "labels": ["dog"], "split": "test"},
        {"image": "sub/c.jpg", "labels": [], "split": "learn"},
    ]
    write(folder / "labels.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write(folder / "classes.txt", "dog\nbird\n")
    dataset = open_dataset("folder", folder)
    assert dataset.classes == ("dog", "bird")
    assert tags(dataset) == [["dog"]]
    assert [path.name for path in dataset.learn.paths] == ["c.jpg"]
    assert dataset.notes == ()


def test_csv_and_jsonl_agree(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("jsonl")
    for name in ("a.jpg", "b.png"):
        touch(other / name)
    write(folder / "labels.csv", "labels,split,image\ncat;dog,test,a.jpg\ncat,test,b.png\n")
    write(
        other / "labels.jsonl",
        '{"image": "a.jpg", "labels": ["cat", "dog"], "split": "test"}\n'
        '{"image": "b.png", "labels": ["cat"], "split": "test"}\n',
    )
    assert tags(open_dataset("folder", folder)) == tags(open_dataset("folder", other))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("image,tags\na.jpg,cat\n", "needs the columns image and labels"),
        ("image,labels\n", "has no image"),
        ("image,labels\na.jpg,\n", "no label at all"),
        ("image,labels\na.jpg,cat\na.jpg,dog\n", "'a.jpg' twice"),
        ("image,labels\n../a.jpg,cat\n", "not below"),
        ("image,labels\ngone.jpg,cat\n", r"1 of 1 images of learn are missing.*--partial"),
        ("image,labels,split\na.jpg,cat,train\n", "accepted are learn and test"),
        ("image,labels,split\na.jpg,cat,test\nb.png,cat,\n", "for some images only"),
        ("image,labels,split\na.jpg,cat,learn\n", "no image to test on"),
    ],
)
def test_tables_that_do_not_work(folder: Path, table: str, message: str) -> None:
    write(folder / "labels.csv", table)
    with pytest.raises(InputError, match=message):
        open_dataset("folder", folder)


def test_labels_that_are_no_class(folder: Path) -> None:
    write(folder / "labels.csv", "image,labels\na.jpg,cats\n")
    write(folder / "classes.txt", "cat\ndog\n")
    with pytest.raises(UnknownNameError, match=r"'cats'\. Did you mean 'cat'"):
        open_dataset("folder", folder)


@pytest.mark.parametrize("line", ["{", '{"image": "a.jpg", "labels": "cat"}', "[]"])
def test_jsonl_lines_that_do_not_work(folder: Path, line: str) -> None:
    write(folder / "labels.jsonl", line + "\n")
    with pytest.raises(InputError, match=r"line 1 of .*labels.jsonl"):
        open_dataset("folder", folder)


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    write(tmp_path / "classes.txt", "cat\ndining table\n")
    write(tmp_path / "train.txt", "one 0\ntwo\n")
    write(tmp_path / "test.txt", "three 0 dining_table\nsub/four.png\n")
    for name in ("one.jpg", "two.jpg", "three.jpg", "sub/four.png"):
        touch(tmp_path / "images" / name)
    return tmp_path


def test_lists(lists: Path) -> None:
    dataset = open_dataset("lists", lists)
    assert tags(dataset) == [["cat", "dining table"], []]
    assert dataset.learn.labels is None
    assert [path.name for path in dataset.learn.paths] == ["one.jpg", "two.jpg"]
    assert dataset.notes == ()


@pytest.mark.parametrize("label", ["2", "-1", "dog"])
def test_lists_with_unknown_labels(lists: Path, label: str) -> None:
    write(lists / "test.txt", f"three {label}\n")
    with pytest.raises(UnknownNameError, match="cat, dining_table"):
        open_dataset("lists", lists)


def test_lists_with_missing_images(lists: Path) -> None:
    (lists / "images/two.jpg").unlink()
    with pytest.raises(InputError, match=r"1 of 2 images of train are missing"):
        open_dataset("lists", lists)
    dataset = open_dataset("lists", lists, partial=True)
    assert len(dataset.learn) == 1
    assert len(dataset.notes) == 1


def test_empty_list(lists: Path) -> None:
    write(lists / "test.txt", "\n")
    with pytest.raises(InputError, match="lists no image"):
        open_dataset("lists", lists)
