"""`piaa doctor`: what it finds, and what it says of what is missing."""

from __future__ import annotations

import json
from importlib import metadata

import pytest
import torch
from cli_samples import Run

from fake_encoder import ColorEncoder
from piaa.cli import health
from piaa.errors import CheckpointError


@pytest.fixture(autouse=True)
def requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    """An editable install may know older ones."""
    lines = [
        "torch>=2.6",
        "safetensors>=0.5",
        'matplotlib>=3.9; extra == "report"',
        'no-such-package>=1; extra == "serve"',
        "piaa[report,serve]; extra == 'dev'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)


def test_as_json(run: Run) -> None:
    found = json.loads(run("doctor", "--no-speed", "--json").stdout)
    assert found["Versions"]["torch"] == metadata.version("torch")
    assert found["Versions"]["safetensors"] == metadata.version("safetensors")
    assert found["Machine"]["threads"].startswith(f"{torch.get_num_threads()} of ")
    assert found["Extras"] == {"report": "installed", "serve": "missing no-such-package"}
    assert found["advice"]["serve"] == "python -m pip install 'piaa[serve]'"
    assert found["advice"]["encoders"].endswith("piaa weights fetch lite")
    assert found["ok"] is True
    assert "Network" not in found


def test_as_text(run: Run) -> None:
    out = run("doctor", "--no-speed").stdout
    assert "python -m pip install 'piaa[serve]'" in out
    assert "Everything that is needed works." in out


def test_what_piaa_needs_and_has_not(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["no-such-package>=1"])
    found = json.loads(run("doctor", "--no-speed", "--json", code=1).stdout)
    assert found["Versions"]["no-such-package"] == "missing"
    assert found["ok"] is False
    assert "Something does not work." in run("doctor", "--no-speed", code=1).stdout


def test_speed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_random_vit", ColorEncoder)
    found = json.loads(run("doctor", "--json").stdout)["Speed"]["encoder"]
    assert "ViT-B-16 (random weights) on cpu" in found
    assert "images/s" in found

    def broken() -> None:
        raise CheckpointError("The weights are damaged.")

    monkeypatch.setattr(health, "_random_vit", broken)
    assert "The weights are damaged." in run("doctor", code=1).stdout


def test_the_hub_is_asked_only_on_request(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def metadata_of(url: str, **_: object) -> None:
        asked.append(url)
        raise ConnectionError("no route to it")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", metadata_of)
    run("doctor", "--no-speed")
    assert asked == []
    found = json.loads(run("doctor", "--no-speed", "--hub", "--json", code=1).stdout)
    assert "does not answer (no route to it)" in found["Network"]["hub"]
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda url, **_: asked.append(url))
    found = json.loads(run("doctor", "--no-speed", "--hub", "--json").stdout)
    assert "answers" in found["Network"]["hub"]
    assert len(asked) == 2
    assert "vit_base_patch16_clip_224.openai/resolve/" in asked[1]
