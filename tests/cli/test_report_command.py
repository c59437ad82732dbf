"""`piaa report` from the command line; tests/report looks at what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_samples import Run

pytestmark = pytest.mark.usefixtures("colors")


def index_of(folder: str) -> dict:
    script = (Path(folder) / "data" / "index.js").read_text()
    return json.loads(script[script.index(",") + 1 : -3])


def test_of_a_fitted_model(run: Run, photos: Path, saved_colors: Path) -> None:
    options = ("--title", "Ours", "--threshold", "0.6", "--photo-size", "64", "--batch-size", "5")
    result = run("report", photos, "--model", saved_colors, "--out", "out", *options)
    assert Path(result.stdout.strip()) == Path.cwd() / "out" / "index.html"
    assert "12 pictures" in result.stderr
    index = index_of("out")
    assert (index["title"], index["threshold"], index["fitted"]) == ("Ours", 0.6, 12)
    assert index["names"][0] == "00.png"
    assert index["names"][-1] == "trip/11.png"


def test_of_classes_alone(run: Run, photos: Path, classes: Path) -> None:
    run("report", photos / "00.png", "--classes", classes, "--out", "out")
    assert (index_of("out")["fitted"], index_of("out")["kinds"]) == (0, ["text"])


def test_bad_files_are_skipped_and_listed(
    run: Run, photos: Path, saved_colors: Path, bad: dict[str, str]
) -> None:
    result = run("report", photos, "--model", saved_colors, "--out", "out", code=1)
    for name, reason in bad.items():
        line = next(line for line in result.stderr.splitlines() if name in line)
        assert reason in line
    assert len(index_of("out")["names"]) == 12
    left_out = {name for name, _ in index_of("out")["skipped"]}
    assert left_out == {"cut.png", "empty.jpg", "notes.jpg", "bomb.png", "gone.jpg"}
    result = run("report", photos, "-m", saved_colors, "-o", "strict", "--strict", code=2)
    assert "Without --strict" in result.stderr
    assert not Path("strict").exists()


def test_when_none_can_be_read_the_reasons_are_told(
    run: Run, photos: Path, saved_colors: Path, bad: dict[str, str]
) -> None:
    result = run("report", photos / "empty.jpg", "-m", saved_colors, "-o", "out", code=2)
    assert "empty.jpg: " in result.stderr
    assert "None of the 1 photographs" in result.stderr
    assert not Path("out").exists()


def test_outputs_are_checked_before_any_work(
    run: Run, photos: Path, saved_colors: Path, colors: list[dict[str, object]]
) -> None:
    arguments = ("report", photos, "-m", saved_colors, "-o")
    assert "not made by piaa" in run(*arguments, photos, "--force", code=2).stderr
    assert "exists already" in run(*arguments, photos, code=2).stderr
    assert "is a file" in run(*arguments, photos / "00.png", code=2).stderr
    assert not colors  # no encoder was asked for
    run(*arguments, "out")
    assert "exists already" in run(*arguments, "out", code=2).stderr
    run(*arguments, "out", "--force")
    run("report", ".", "-m", saved_colors, "-o", "out", "--force")
    assert len(index_of("out")["names"]) == 12
    assert (
        "copies in a report" in run("report", "out", "-m", saved_colors, "-o", "b", code=2).stderr
    )
