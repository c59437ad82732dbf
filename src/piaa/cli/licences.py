"""Under which licences the packages come that piaa runs with, as they say themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
UNKNOWN = "not stated"


@dataclass(frozen=True)
class Dependency:
    """An installed package; `needed_by` is the first that was found to need it."""

    name: str
    version: str
    licence: str
    needed_by: str


def dependencies(root: str = "piaa") -> list[Dependency]:
    """All installed packages that `root` needs, directly or not, with its extras but dev; by name."""
    found: dict[str, Dependency] = {}
    waiting = [(root, name) for name in _needs(root, extras=True)]
    while waiting:
        parent, name = waiting.pop(0)
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key == root:
            continue
        try:
            told = distribution(name).metadata
        except PackageNotFoundError:  # an extra that is not installed, or for another system
            continue
        found[key] = Dependency(told["Name"], told["Version"], licence_of(told), parent)
        waiting += [(told["Name"], other) for other in _needs(name, extras=False)]
    return [found[key] for key in sorted(found)]


def licence_of(metadata: Any) -> str:
    """In short, of the metadata of a package: the SPDX expression, or what older ones have in its place.

    >>> from email.message import Message
    >>> told = Message()
    >>> told["Classifier"] = "License :: OSI Approved :: Apache Software License"
    >>> licence_of(told)
    'Apache Software License'
    """
    if expression := metadata.get("License-Expression"):
        return str(expression)
    line = str(metadata.get("License") or "").strip()
    if line and "\n" not in line and len(line) <= 60:  # some put the whole text there
        return line
    named = [str(one) for one in metadata.get_all("Classifier") or []]
    last = [one.rpartition(" :: ")[2] for one in named if one.startswith("License :: ")]
    return "; ".join(last) or (line.splitlines()[0].strip() if line else UNKNOWN)


def _needs(name: str, *, extras: bool) -> Iterator[str]:
    for requirement in distribution(name).requires or []:
        wanted = _EXTRA.search(requirement)
        if wanted is not None and (not extras or wanted[1] == "dev"):
            continue
        match = _NAME.match(requirement)
        if match is not None:
            yield match[0]
