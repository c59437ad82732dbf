"""The demo with real weights and photographs: the tags that a person would give, in their places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import piaa
from piaa.cli import app
from piaa.demo.photographs import find_photographs
from piaa.encoders.base import Encoder
from piaa.errors import PiaaError

# Tags or best guesses of the photographs, and (top, left, bottom, right) of the things as shares.
EXPECTED = {
    "chelsea": ("cat", (0.1, 0, 1, 1)),
    "coffee": ("coffee", (0, 0.2, 0.6, 0.8)),
    "motorcycle_left": ("motorcycle", (0.2, 0.1, 0.9, 0.95)),
    "rocket": ("rocket", (0.25, 0.3, 0.95, 0.7)),
    "camera": ("tripod", (0.4, 0.3, 1, 0.9)),
    "astronaut": ("helmet", (0.6, 0.5, 1, 1)),
    "china": ("palace", (0.05, 0.05, 0.9, 0.6)),
}


@pytest.fixture(scope="module")
def photographs() -> dict[str, Path]:
    try:
        return {path.stem: path for path in find_photographs().files.values()}
    except PiaaError as error:
        pytest.skip(f"needs real photographs: {error}")


def test_best_names_and_their_places(lite: Encoder, photographs: dict[str, Path]) -> None:
    known = {name: path for name, path in photographs.items() if name in EXPECTED}
    predictions = piaa.Recognizer(lite, "photos").predict(known.values())
    for name, prediction in zip(known, predictions, strict=True):
        tag, (top, left, bottom, right) = EXPECTED[name]
        assert prediction.top(1)[0][0] == tag
        heat = prediction.image_heatmap(tag)
        row, column = divmod(int(heat.argmax()), heat.shape[1])
        assert top <= row / heat.shape[0] <= bottom
        assert left <= column / heat.shape[1] <= right


@pytest.mark.usefixtures("lite", "photographs")
def test_the_command(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)], env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.stderr
    rows = dict(re.findall(r"^(\w+)\.(?:png|jpg) +(\S.*?) *$", done.stdout, re.MULTILINE))
    assert rows.keys() & EXPECTED.keys()
    for name in rows.keys() & EXPECTED.keys():
        assert rows[name].startswith(EXPECTED[name][0])
    assert (tmp_path / "index.html").stat().st_size > 100_000


def test_the_model_that_ships(lite: Encoder, photographs: dict[str, Path]) -> None:
    recognizer = piaa.Recognizer.load("voc", lite)
    assert recognizer.report.n_images == 2000
    wanted = {"chelsea": "cat", "motorcycle_left": "motorbike"}
    for name in wanted.keys() & photographs.keys():
        (prediction,) = recognizer.predict(photographs[name])
        assert [tag for tag, _ in prediction.tags] == [wanted[name]]
