"""Labels of images as people have them."""

from __future__ import annotations

import torch
from torch import Tensor

from piaa.classes.class_list import ClassList
from piaa.errors import InputError


def label_matrix(labels: object, classes: ClassList, n_images: int) -> Tensor:
    """Labels as (n_images, C) bool.

    Args:
        labels: array, tensor or nested lists of 0 and 1 (images x classes), or one list of class
            names an image.

    >>> label_matrix([["dog"], []], ClassList.of(["cat", "dog"]), 2)
    tensor([[False,  True],
            [False, False]])
    """
    accepted = (
        f"labels must be {n_images} x {len(classes)} (images x classes) of 0 and 1, or one list of "
        "class names an image"
    )
    if isinstance(labels, list | tuple) and all(_is_names(row) for row in labels):
        if len(labels) != n_images:
            raise InputError(f"{accepted}, not {len(labels)} lists of names.")
        wanted = torch.zeros(n_images, len(classes), dtype=torch.bool)
        for row, names in zip(wanted, labels, strict=True):
            row[[classes.index(name) for name in names]] = True
        return wanted
    try:
        values = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{accepted}, not a {type(labels).__name__}: {error}.") from error
    if values.shape != (n_images, len(classes)):
        raise InputError(f"{accepted}, not shape {tuple(values.shape)}.")
    wrong = ~((values == 0) | (values == 1))  # NaN equals neither
    if wrong.any():
        raise InputError(f"{accepted}, not {values[wrong][0].item()!r}.")
    return values.bool().cpu()


def _is_names(row: object) -> bool:
    return isinstance(row, list | tuple | set | frozenset) and all(
        isinstance(name, str) for name in row
    )
