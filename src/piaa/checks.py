"""Checks of what comes in, at the door."""

from __future__ import annotations

import torch
from torch import Tensor

from piaa.errors import InputError

# Half-precision features keep two to three digits, so their rows are unit only to about this.
NORM_TOLERANCE = 0.02


def check_count(name: str, value: object) -> None:
    """A whole number of at least 1, or an error."""
    if type(value) is not int or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}.")


def check_cut(threshold: object, top_k: object) -> None:
    """What decides which scores are tags: a number in [0, 1], and a count or None."""
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise InputError(f"threshold must be a number in [0, 1], not {threshold!r}.")
    if top_k is not None:
        check_count("top_k", top_k)


def unit_rows(name: str, value: object, *, ndim: int, width: int | None = None) -> Tensor:
    """`value` as float32, once it is known to hold finite rows of unit length.

    On a GPU only shape and type are looked at: the values would have to be waited for, at every batch.
    NaN goes on to the scores there.

    Args:
        name: what to call the tensor in an error.
        value: floating tensor of `ndim` axes whose last axis has length `width` (any if `None`).
    """
    if not isinstance(value, Tensor):
        raise InputError(f"{name} must be a torch tensor, got {type(value).__name__}.")
    if not value.is_floating_point():
        raise InputError(
            f"{name} must hold floating-point numbers, got {value.dtype}; "
            "pass L2-normalized features."
        )
    if value.ndim != ndim or 0 in value.shape[1:]:
        raise InputError(
            f"{name} must have {ndim} axes of length at least 1, got shape {tuple(value.shape)}."
        )
    if width is not None and value.shape[-1] != width:
        raise InputError(
            f"{name} has {value.shape[-1]} numbers a vector and the text prototypes have {width}; "
            "both must come from the same encoder."
        )
    rows = value.detach().float()
    if rows.device.type != "cpu":
        return rows
    norms = torch.linalg.vector_norm(rows, dim=-1)
    bad = ~((norms - 1).abs() <= NORM_TOLERANCE)  # NaN fails the comparison, so it is bad too
    if bad.any():
        where = tuple(bad.nonzero()[0].tolist())
        raise InputError(
            f"{name} must hold finite rows of unit length; row {where} has length "
            f"{norms[where].item():.4g} ({int(bad.sum())} of {bad.numel()} rows are off). "
            "Normalize with torch.nn.functional.normalize(x, dim=-1), and look for NaN upstream."
        )
    return rows
