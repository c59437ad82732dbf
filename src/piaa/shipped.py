"""What the package carries under a name: class lists and fitted recognizers."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

_CLASS_LISTS = "classes", ".txt"
_MODELS = "models", ".piaa"


def list_class_lists() -> list[str]:
    """Names of the class lists in the package, for `Recognizer(encoder, classes=name)`.

    >>> list_class_lists()
    ['coco', 'everyday', 'imagenet', 'nus', 'photos', 'voc']
    """
    return _names(*_CLASS_LISTS)


def list_models() -> list[str]:
    """Names of the fitted recognizers in the package, for `Recognizer.load(name)`.

    >>> list_models()
    ['voc']
    """
    return _names(*_MODELS)


def class_list_file(name: str | os.PathLike[str]) -> Traversable | None:
    """The file of a class list, or None if no list has that name. A path object is never a name."""
    return _file(name, *_CLASS_LISTS)


def model_file(name: str | os.PathLike[str]) -> Traversable | None:
    """The file of a fitted recognizer, or None if none has that name."""
    return _file(name, *_MODELS)


def model_path(path: str | os.PathLike[str]) -> AbstractContextManager[Path]:
    """The path of a fitted recognizer, good for the block: that of the package if it is a name there."""
    file = model_file(path)
    return nullcontext(Path(path)) if file is None else as_file(file)


def _names(folder: str, suffix: str) -> list[str]:
    found = files("piaa").joinpath("data", folder).iterdir()
    return sorted(file.name.removesuffix(suffix) for file in found if file.name.endswith(suffix))


def _file(name: object, folder: str, suffix: str) -> Traversable | None:
    # Compared with what is there, not joined: "../x" is no name.
    if not isinstance(name, str) or name not in _names(folder, suffix):
        return None
    return files("piaa").joinpath("data", folder, f"{name}{suffix}")
