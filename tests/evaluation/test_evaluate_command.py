from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from colored import CountingEncoder
from typer.testing import CliRunner, Result

from fake_encoder import CLASSES, ColorEncoder, pictures
from piaa import Recognizer
from piaa.cli import app

Run = Callable[..., Result]


@pytest.fixture
def seen() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
def run(
    squares_root: Path, seen: CountingEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """run(*arguments, code=0): the command on the squares, with an encoder of colors."""
    for name in os.environ:
        if name.startswith("PIAA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr("piaa.encoders.loading.load_encoder", lambda *_, **__: seen)
    monkeypatch.setattr("piaa.saving.reload_encoder", lambda *_, **__: seen)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*arguments: str, code: int = 0) -> Result:
        start = ["evaluate", "--dataset", "folder", "--root", str(squares_root), "--rounds", "20"]
        result = CliRunner().invoke(app, [*start, *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def test_a_table_on_the_terminal_and_a_record_beside_it(run: Run) -> None:
    result = run("--fit", "--method", "piaa", "--method", "cls")
    for word in ("mAP", "CF1", "OF1", "images/s", "first minus it", "piaa", "cls", "red"):
        assert word in result.stdout
    record = json.loads(Path("evaluation-folder.json").read_text())
    assert [one["method"] for one in record["results"]] == ["piaa", "cls"]
    assert record["results"][0]["settings"]["fitted_images"] == 12
    assert record["command"][0] == "piaa"
    assert "exists" in run("--fit", code=2).stderr
    run("--fit", "--force")


def test_json(run: Run) -> None:
    record = json.loads(run("--json").stdout)
    assert record["results"][0]["settings"]["fitted_images"] == 0, "zero-shot without --fit"
    assert not list(Path().iterdir())
    run("--json", "--out", "results.json")
    kept = json.loads(Path("results.json").read_text())
    assert kept["results"][0]["map"] == record["results"][0]["map"]


def test_a_saved_model_in_another_order_of_classes(run: Run) -> None:
    recognizer = Recognizer(ColorEncoder(), CLASSES[::-1])
    with warnings.catch_warnings(action="ignore"):
        recognizer.fit(pictures(12))
    recognizer.save("colors.piaa")
    record = json.loads(run("--model", "colors.piaa", "--json").stdout)
    assert record["protocol"]["classes"] == CLASSES[::-1]
    assert record["results"][0]["map"]["value"] > 0.9
    Recognizer(ColorEncoder(), ["red", "white"]).save("other.piaa")
    message = run("--model", "other.piaa", code=2).stderr
    assert "'white' too many, 'green', 'blue' missing" in message


def test_a_dry_run_says_how_long_and_does_nothing(run: Run, seen: CountingEncoder) -> None:
    result = run("--fit", "--dry-run", "--method", "piaa", "--method", "sparc")
    assert "encode learn" in result.stdout
    assert "in all" in result.stdout
    assert not list(Path().iterdir())
    assert seen.n_encoded <= 12 + 1


def test_a_learning_curve(run: Run) -> None:
    options = ("--fit", "--seeds", "2", "--sizes", "4,12", "--plot", "curve.svg")
    result = run(*options)
    assert "Learning curve" in result.stdout
    record = json.loads(Path("evaluation-folder.json").read_text())
    assert [row["images"] for row in record["learning_curve"]["sizes"]] == [4, 12]
    assert Path("curve.svg").stat().st_size > 1000


def test_tiles_add_a_line(run: Run) -> None:
    record = json.loads(run("--fit", "--tiles", "2", "--json").stdout)
    assert [one["method"] for one in record["results"]] == ["piaa", "piaa, tiles 2 x 2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "magic"], "Unknown method 'magic'"),
        (["--preset", "voc"], "auto, reference, paper"),
        (["--preset", "reference"], "no constants for folder"),
        (["--method", "cls", "--tiles", "2"], "for the method piaa"),
        (["--sizes", "4"], "give --seeds"),
        (["--fit", "--seeds", "1", "--sizes", "a"], "numbers such as"),
        (["--difficult", "ignore"], "for voc2007 and voc2012"),
        (["--model", "gone.piaa"], "does not exist"),
        (["--fit", "--model", "gone.piaa"], "--model cannot go with --fit"),
    ],
)
def test_what_does_not_work(run: Run, options: list[str], message: str) -> None:
    assert message in run(*options, code=2).stderr


def test_a_plot_without_matplotlib_fails_before_the_work(
    run: Run, seen: CountingEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    options = ("--fit", "--seeds", "1", "--plot", "curve.svg")
    assert "piaa[report]" in run(*options, code=2).stderr
    assert seen.n_encoded == 0


def test_limits_are_told(run: Run) -> None:
    result = run("--limit", "6", "--json")
    assert "note: only the first 6 images" in result.stderr
    notes = json.loads(result.stdout)["protocol"]["notes"]
    assert notes == ["only the first 6 images of each split"]
