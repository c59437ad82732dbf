"""NUS-WIDE: the paper's lists or the official ones, and the folders of the Flickr images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from piaa.datasets.base import (
    Dataset,
    Labels,
    Shortfalls,
    Split,
    first_existing,
    inside,
    read_lines,
    refuse_repeats,
)
from piaa.datasets.names import NUS
from piaa.datasets.textlists import read_list
from piaa.errors import InputError

RULE = "81 concepts; images without any label are kept"
N_LEARN, N_TEST = 150_000, 60_260
# As the paper's repository names its lists; each line is "folder/name label label ...".
LEARN_LIST, TEST_LIST = "nuswidetrain_labels.txt", "nuswideval_labels.txt"


def open_nuswide(name: str, root: Path, *, partial: bool = False) -> Dataset:
    """The paper's split if its lists are below `root`, else the official one, which is another.

    Images are in Flickr/<folder>/<name>.jpg, images/... or right below `root`. The official lists are
    ImageList/{Train,Test}Imagelist.txt with Groundtruth/TrainTestLabels/Labels_<concept>_Test.txt.
    """
    shortfalls = Shortfalls(name, root, partial=partial)
    folder = first_existing([root / "Flickr", root / "images", root], "folder of images")
    lists = next((p for p in (root, root / "imageset", root / "ImageList") if _has_lists(p)), None)
    if lists is not None:
        learn = Split("train", read_list(lists / LEARN_LIST, folder, NUS)[0])
        test = Split("val", *read_list(lists / TEST_LIST, folder, NUS))
        learn, test = shortfalls.existing(learn), shortfalls.existing(test)
    else:
        shortfalls.add(
            f"the paper's lists {LEARN_LIST} and {TEST_LIST} are not there, so the split is the official one"
        )
        learn = shortfalls.existing(_official(root, folder, "Train", labelled=False))
        test = shortfalls.existing(_official(root, folder, "Test", labelled=True))
    shortfalls.count(learn, N_LEARN)
    shortfalls.count(test, N_TEST)
    notes = shortfalls.settle()
    return Dataset(name, NUS, learn, test, RULE, preset="nus", notes=notes)


def _has_lists(folder: Path) -> bool:
    return (folder / LEARN_LIST).is_file() and (folder / TEST_LIST).is_file()


def _official(root: Path, folder: Path, split: str, *, labelled: bool) -> Split:
    path = first_existing(
        [root / "ImageList" / f"{split}Imagelist.txt", root / f"{split}Imagelist.txt"],
        f"list of the images of {split}, neither the paper's {TEST_LIST} nor the official one",
    )
    # Written on Windows: actor\0001_2124494179.jpg
    ids = [line.replace("\\", "/") for line in read_lines(path)]
    refuse_repeats(ids, path)
    paths = tuple(inside(folder, image, str(path)) for image in ids)
    return Split(split, paths, _concepts(root, split, len(ids)) if labelled else None)


def _concepts(root: Path, split: str, n_images: int) -> Labels:
    places = (root / "Groundtruth" / "TrainTestLabels", root / "TrainTestLabels")
    folder = first_existing(places, "folder of the concepts' labels")
    labels = np.zeros((n_images, len(NUS)), dtype=np.int8)
    for column, concept in enumerate(NUS):
        path = folder / f"Labels_{concept}_{split}.txt"
        values = read_lines(path)
        if len(values) != n_images or not set(values) <= {"0", "1"}:
            raise InputError(
                f"{path} must hold a line of 0 or 1 for each of the {n_images} images of {split}, not "
                f"{len(values)} lines of {', '.join(sorted(set(values))[:4])}."
            )
        labels[:, column] = [value == "1" for value in values]
    return labels
