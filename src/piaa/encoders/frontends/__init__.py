"""Front-ends: published ways to read patch tokens from a frozen transformer, one per file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piaa.encoders.frontends.base import Frontend
from piaa.encoders.frontends.clearclip import ClearClip
from piaa.encoders.frontends.clip import Clip
from piaa.encoders.frontends.itaclip import ItaClip
from piaa.encoders.frontends.maskclip import MaskClip
from piaa.encoders.frontends.naclip import NaClip
from piaa.encoders.frontends.sc_clip import ScClip
from piaa.encoders.frontends.sclip import SClip
from piaa.errors import UnknownNameError

FRONTENDS: Mapping[str, type[Frontend]] = {
    frontend.name: frontend
    for frontend in (Clip, MaskClip, SClip, ItaClip, ScClip, ClearClip, NaClip)
}


def list_frontends() -> list[str]:
    """Names for `load_encoder(frontend=...)`.

    >>> list_frontends()
    ['clip', 'maskclip', 'sclip', 'itaclip', 'sc-clip', 'clearclip', 'naclip']
    """
    return list(FRONTENDS)


def find_frontend(name: str) -> type[Frontend]:
    """The front-end of that name; an unknown name is an error that lists near matches."""
    try:
        return FRONTENDS[name]
    except (KeyError, TypeError):
        raise UnknownNameError("front-end", name, FRONTENDS) from None


def make_frontend(name: str, depth: int, options: Mapping[str, Any] | None = None) -> Frontend:
    """The named front-end with its preset for a transformer of `depth` blocks."""
    return find_frontend(name).for_depth(depth, options)
