"""The command line as a user meets it: a process, its two streams and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def run(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "piaa", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_help_names_the_commands() -> None:
    out = run("--help").stdout
    assert "smoke" in out
    assert "encoders" in out


def test_version() -> None:
    assert run("--version").stdout.startswith("piaa ")


def test_encoders_as_json() -> None:
    listed = json.loads(run("encoders", "--json").stdout)
    names = [entry["name"] for entry in listed["encoders"]]
    assert names == [
        "ViT-B-32",
        "ViT-B-16",
        "ViT-L-14",
        "ViT-L-14-336",
        "EVA02-B-16",
        "EVA02-L-14",
        "EVA02-L-14-336",
    ]
    assert all(
        len(entry["sha256"]) == 64 and len(entry["revision"]) == 40 for entry in listed["encoders"]
    )
    assert "sc-clip" in listed["frontends"]


def test_encoders_as_table() -> None:
    out = run("encoders").stdout
    assert "EVA02-L-14-336" in out
    assert "naclip" in out


def test_smoke_with_a_model_of_ones_own(clip_file: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (60, 90, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    done = run(
        "smoke",
        tmp_path / "a.png",
        "--weights",
        clip_file,
        "--frontend",
        "itaclip",
        "--device",
        "cpu",
    )
    assert "(1, 196, 64)" in done.stdout
    assert "images/s" in done.stdout
    assert "device     cpu" in done.stdout
    assert "random" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["smoke", "--encoder", "ViT-B-61"], "Did you mean"),
        (["smoke", "--weights", "nowhere.safetensors"], "No weights at nowhere.safetensors"),
        (["smoke", "--frontend", "scclip"], "'sc-clip'"),
    ],
)
def test_bad_input_is_one_message(arguments: list[str], message: str) -> None:
    done = run(*arguments, code=2)
    assert message in done.stderr
    assert done.stdout == ""
