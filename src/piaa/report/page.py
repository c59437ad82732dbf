"""The files of the page: the static ones as they are, and the data as scripts.

A page that is opened from a file may not fetch other files, but it may run scripts: each data file
is one call with one JSON value, in ASCII, so that no name of a file or class can end or change it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

CHUNK: Final = 32
"""Photographs whose maps are in one file, loaded when one of them is looked at."""


def write_static(folder: Path) -> None:
    (folder / "assets").mkdir()
    for source in files("piaa.report").joinpath("static").iterdir():
        target = folder if source.name == "index.html" else folder / "assets"
        (target / source.name).write_bytes(source.read_bytes())


def write_data(folder: Path, name: str, value: Mapping[str, Any]) -> None:
    """data/{name}.js, which hands `value` to the page."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    script = f"piaa.receive({json.dumps(name)},{text});\n"
    (folder / "data" / f"{name}.js").write_text(script, encoding="ascii")


class MapWriter:
    """Writes the maps of photographs in order, in files of `CHUNK`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: list[Mapping[str, Any]] = []
        self._written = 0

    def add(self, maps: Mapping[str, Any]) -> None:
        self._waiting.append(maps)
        if len(self._waiting) == CHUNK:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            write_data(self._folder, f"maps-{self._written}", {"photos": self._waiting})
            self._written, self._waiting = self._written + 1, []
