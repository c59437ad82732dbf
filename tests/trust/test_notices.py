"""Whose work this is: every data file and every set of weights is named with its licence."""

from __future__ import annotations

import json
import re
from email.message import Message
from fnmatch import fnmatch
from pathlib import Path

import pytest
from typer.testing import CliRunner

import piaa
from piaa.cli import app
from piaa.cli.licences import UNKNOWN, licence_of
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


def test_the_command_shows_every_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = CliRunner().invoke(app, ["encoders", "--licences"])
    assert run.exit_code == 0
    for entry in ENCODERS.values():
        line = next(line for line in run.output.splitlines() if line.startswith(f"{entry.name} "))
        assert line.rstrip().endswith(entry.licence)
    shown = " ".join(run.output.split())
    for source in (MINILM, *(lite.source for lite in LITE_ENCODERS.values())):
        assert source.attribution in shown
        assert source.licence in shown


def test_the_licences_of_all_packages_are_known() -> None:
    found = json.loads(CliRunner().invoke(app, ["encoders", "--licences", "--json"]).output)
    packages = {entry["name"]: entry for entry in found["dependencies"]}
    assert packages["torch"]["needed_by"] == "piaa"
    assert packages["MarkupSafe"]["needed_by"] == "Jinja2"  # needed by what piaa needs
    assert [name for name, one in packages.items() if one["licence"] == UNKNOWN] == []
    assert found["embedded_text"]["licence"] == MINILM.licence
    assert "dependencies" not in json.loads(CliRunner().invoke(app, ["encoders", "--json"]).output)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"License-Expression": "MIT", "License": "see file"}, "MIT"),
        ({"License": "BSD"}, "BSD"),
        ({"License": "Some License\n\nThe whole text ..."}, "Some License"),
        ({"License": "x" * 61, "Classifier": "License :: OSI Approved :: ISC"}, "ISC"),
        ({}, UNKNOWN),
    ],
)
def test_where_a_licence_is_told(fields: dict[str, str], told: str) -> None:
    metadata = Message()
    for name, value in fields.items():
        metadata[name] = value
    assert licence_of(metadata) == told
