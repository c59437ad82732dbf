"""The paper's method and its rivals, one per file, behind one interface."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from piaa.baselines.base import Method
from piaa.classes.class_list import Classes
from piaa.encoders.base import Encoder
from piaa.errors import UnknownNameError

# Name -> module and class; imported when asked for.
_METHODS: Mapping[str, tuple[str, str]] = {
    "cls": ("piaa.baselines.cls", "Cls"),
    "patch": ("piaa.baselines.patch", "Patch"),
    "tagclip": ("piaa.baselines.tagclip", "TagClip"),
    "sparc": ("piaa.baselines.sparc", "Sparc"),
    "piaa": ("piaa.baselines.piaa", "Piaa"),
}

__all__ = ["Method", "list_methods", "make_method"]


def list_methods() -> list[str]:
    """Names for `make_method`.

    >>> list_methods()
    ['cls', 'patch', 'tagclip', 'sparc', 'piaa']
    """
    return list(_METHODS)


def make_method(name: str, encoder: Encoder, classes: Classes, **options: Any) -> Method:
    """The named method for an encoder and classes.

    Args:
        options: Of the method, see its class. All of them take `template`, the prompt around each
            class's words, which is the encoder's own by default.
    """
    if name not in _METHODS:
        raise UnknownNameError("method", name, _METHODS)
    module, kind = _METHODS[name]
    factory = getattr(import_module(module), kind)
    parameters = inspect.signature(factory).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of method {name!r}", option, known)
    method: Method = factory(encoder, classes, **options)
    return method
