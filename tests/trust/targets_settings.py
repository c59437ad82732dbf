"""Fuzz targets: configs, settings, and the files of an unfinished job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from target import Target, tree_or_bytes

from fake_encoder import CLASSES, ColorEncoder
from piaa import Config, Recognizer


def configs(_: Path) -> Target:
    forms = [Config.auto(), Config.reference("voc"), Config.paper()]
    seeds = [json.dumps(form.to_dict()).encode() for form in forms]

    def accepts(data: bytes, place: Path) -> bool:
        try:
            values = json.loads(data)
        except (ValueError, RecursionError):
            return False
        if not isinstance(values, dict):
            return False
        config = Config.from_dict(values)
        assert Config.from_dict(config.to_dict()) == config
        return True

    return Target(seeds, accepts, tree_or_bytes(seeds))


def settings_files(_: Path) -> Target:
    import typer

    from piaa.cli import app
    from piaa.cli.settings import read_settings

    group: Any = typer.main.get_command(app)
    seeds = [b'encoder = "lite"\n\n[predict]\ntop-k = 3\nthreshold = 0.5\n']

    def accepts(data: bytes, place: Path) -> bool:
        (place / "piaa.toml").write_bytes(data)
        read_settings(group.make_context("piaa", ["doctor"]), place / "piaa.toml")
        return True

    return Target(seeds, accepts)


def job_manifests(folder: Path) -> Target:
    from piaa.scale.job import open_job
    from piaa.scale.sources.files import FilePart
    from piaa.scale.units import cut

    (folder / "a.jpg").write_bytes(b"x")
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    units = cut([FilePart(str(folder / "a.jpg"))])
    options = {"command": "fit", "top_k": None, "config": Config().to_dict()}
    with open_job(folder / "job", units, options, recognizer):
        pass
    inputs = (folder / "job" / "inputs.jsonl").read_bytes()
    seeds = [(folder / "job" / "manifest.json").read_bytes().replace(b"\n", b"")]

    def accepts(data: bytes, place: Path) -> bool:
        (place / "manifest.json").write_bytes(data)
        (place / "inputs.jsonl").write_bytes(inputs)
        with open_job(place, units, options, recognizer):
            pass
        return True

    return Target(seeds, accepts, tree_or_bytes(seeds))


def unit_results(folder: Path) -> Target:
    from piaa.scale.predict import _read, _write

    lines = [
        json.dumps({"source": "a.jpg", "size": [3, 4], "tags": [["cat", 0.5]]}).encode() + b"\n"
    ]
    _write(folder / "unit", lines, {"skipped": []})
    _, sound = _read(folder / "unit")

    def accepts(data: bytes, place: Path) -> bool:
        (place / "unit").write_bytes(data)
        assert _read(place / "unit")[1] == sound, "damaged predictions were taken for sound ones"
        return True

    return Target([(folder / "unit").read_bytes()], accepts)
