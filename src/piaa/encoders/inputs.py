"""What every encoder checks of the pixels and texts it is given."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from piaa.errors import InputError


def check_texts(texts: object) -> None:
    """Refuse anything but a list of strings that can be encoded."""
    if isinstance(texts, str):
        raise InputError(f"texts must be a list of strings, got one string. Pass [{texts!r}].")
    if not isinstance(texts, Sequence):
        raise InputError(f"texts must be a list or tuple of strings, got {type(texts).__name__}.")
    if not texts:
        raise InputError("texts is empty: give at least one string.")
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"texts[{position}] must be a string, got {type(text).__name__}.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"texts[{position}] holds half of a UTF-16 surrogate pair at character "
                f"{error.start}, which is not valid text: {text!r}. Decode its source again."
            ) from error


def check_pixels(pixels: object) -> None:
    """Refuse anything but finite floating point pixels (B, 3, H, W)."""
    if not isinstance(pixels, Tensor):
        raise InputError(f"Pixels must be a torch tensor, not {type(pixels).__name__}.")
    if pixels.dim() != 4 or pixels.shape[1] != 3 or 0 in pixels.shape:
        raise InputError(
            f"Pixels must have shape (B, 3, H, W) with at least one image, not "
            f"{tuple(pixels.shape)}."
        )
    if not pixels.is_floating_point():
        raise InputError(
            f"Pixels must be floating point and normalized, not {pixels.dtype}. For uint8 "
            "pictures use encode_images, which normalizes them."
        )
    finite = pixels.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        bad = (~finite).nonzero().flatten().tolist()
        raise InputError(f"Pixels hold NaN or infinity in images {bad[:10]} of the batch.")
