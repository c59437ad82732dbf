"""Whose work this is: every data file and every set of weights is named with its licence."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import piaa
from piaa.encoders.lite.sources import LITE_ENCODERS, MINILM
from piaa.encoders.registry import ENCODERS

DATA = Path(piaa.__file__).parent / "data"
NOTICE = (DATA / "NOTICE").read_text(encoding="utf-8")


def test_every_data_file_has_an_entry() -> None:
    """An entry is a line of file names alone, perhaps with *, above its paragraph."""
    heads = [
        name
        for line in NOTICE.splitlines()
        if re.fullmatch(r"[\w/.*-]+(, [\w/.*-]+)*", line)
        for name in line.split(", ")
    ]
    files = [path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()]
    missing = [
        file
        for file in files
        if file != "NOTICE" and not any(fnmatch(file, head) for head in heads)
    ]
    assert missing == []
    entries = [head for head in heads if "." in head and "/" in head]
    assert [one for one in entries if not any(fnmatch(file, one) for file in files)] == []


def test_every_encoder_has_one() -> None:
    _, _, weights = NOTICE.partition("Weights that piaa can fetch")
    for entry in ENCODERS.values():
        line = next(line for line in weights.splitlines() if re.search(rf"{entry.name}[,:]", line))
        assert entry.publisher in line
        assert entry.licence in line
    for lite in LITE_ENCODERS.values():
        assert lite.name in weights
        assert lite.source.attribution in weights
        assert lite.source.licence in weights
    assert MINILM.attribution in weights
