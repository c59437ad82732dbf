"""One family of errors.

Every message says what was wrong, the value seen, what is accepted and what to do next, so that
the command line can print it as it is. Errors about an argument are also `ValueError`s.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PiaaError(Exception):
    """Base of everything piaa raises on purpose."""


class InputError(PiaaError, ValueError):
    """An argument has the wrong type, shape, dtype or value."""


class UnknownNameError(InputError):
    """A name that piaa does not know; the message lists near matches and all known names."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = list(known)
        near = difflib.get_close_matches(str(name).lower(), [k.lower() for k in known], n=3)
        close = [k for k in known if k.lower() in near]
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        super().__init__(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.")


class ImageError(PiaaError):
    """A picture that cannot be opened or decoded; `reason` says why in a few words."""

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class CheckpointError(PiaaError):
    """Weights that cannot be read, or whose tensors do not make a model piaa knows."""


class ArtifactError(PiaaError):
    """A saved recognizer that cannot be read or written, or that belongs to another encoder."""


class WeightsUnavailableError(PiaaError):
    """Weights that are neither on this machine nor to be had from the hub."""
