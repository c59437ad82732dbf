"""The paper's data sets and people's own: lists of paths and labels, no image opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from piaa.datasets.base import Dataset, Labels, Shares, Split
from piaa.datasets.coco import open_coco
from piaa.datasets.folder import open_folder
from piaa.datasets.nuswide import open_nuswide
from piaa.datasets.textlists import open_lists
from piaa.datasets.voc import Difficult, open_voc
from piaa.errors import InputError, UnknownNameError

__all__ = ["Dataset", "Difficult", "Labels", "Shares", "Split", "list_datasets", "open_dataset"]

_LOADERS: Final[dict[str, Callable[..., Dataset]]] = {
    "voc2007": open_voc,
    "voc2012": open_voc,
    "coco2014": open_coco,
    "coco2017": open_coco,
    "nuswide": open_nuswide,
    "folder": open_folder,
    "lists": open_lists,
}


def list_datasets() -> list[str]:
    """Names for `open_dataset`.

    >>> list_datasets()[0]
    'voc2007'
    """
    return list(_LOADERS)


def open_dataset(
    name: str,
    root: str | os.PathLike[str],
    *,
    partial: bool = False,
    difficult: Difficult | None = None,
) -> Dataset:
    """A data set that is on this machine.

    Args:
        root: Folder of the data set, in its publisher's layout.
        partial: Take what is there where images are missing or counts are not the published ones, and
            say so in `notes`, in place of an error.
        difficult: Of VOC's objects marked difficult: "negative" (as the paper does, and the default),
            "positive", or "ignore".
    """
    if name not in _LOADERS:
        raise UnknownNameError("data set", name, _LOADERS)
    folder = Path(root)
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise InputError(
            f"The root {str(folder)!r} of {name} {state}. Give the folder that holds it."
        )
    options: dict[str, Any] = {"partial": partial}
    if difficult is not None:
        if _LOADERS[name] is not open_voc:
            raise InputError(f"difficult={difficult!r} is for voc2007 and voc2012, not for {name}.")
        options["difficult"] = difficult
    return _LOADERS[name](name, folder, **options)
