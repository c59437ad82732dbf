from __future__ import annotations

import csv
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from colored import CountingEncoder
from typer.testing import CliRunner, Result

from fake_encoder import CLASSES, ColorEncoder, pictures, squares
from piaa import Recognizer
from piaa.cli import app
from piaa.datasets.names import VOC
from piaa.errors import WeightsUnavailableError

Run = Callable[..., Result]
COLORS = {"car": "red", "cat": "green", "dog": "blue"}


def make_devkit(root: Path) -> None:
    """VOC 2007 in which cars are red squares, cats green and dogs blue."""
    base = root / "VOC2007"
    for folder in ("ImageSets/Main", "JPEGImages", "Annotations"):
        (base / folder).mkdir(parents=True)
    kinds = (["car"], ["cat"], ["dog"], ["car", "dog"])
    for split, start in (("trainval", 0), ("test", 12)):
        names = [f"{start + place:06d}" for place in range(12)]
        (base / "ImageSets/Main" / f"{split}.txt").write_text("\n".join(names))
        for place, name in enumerate(names):
            things = kinds[place % len(kinds)]
            squares(start + place, [COLORS[t] for t in things]).save(
                base / f"JPEGImages/{name}.jpg"
            )
            objects = "".join(f"<object><name>{thing}</name></object>" for thing in things)
            (base / f"Annotations/{name}.xml").write_text(f"<annotation>{objects}</annotation>")


class SpeaksVoc(CountingEncoder):
    """Knows that a car is red, and no other word of VOC."""

    def encode_text(self, texts: Sequence[str]):
        words = [COLORS.get(text.split()[-1], text) for text in texts]
        return super().encode_text(words)


@pytest.fixture
def seen() -> SpeaksVoc:
    return SpeaksVoc()


@pytest.fixture
def run(seen: SpeaksVoc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in os.environ:
        if name.startswith("PIAA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")

    def load(name: str | None = None, **options: object) -> CountingEncoder:
        if name == "EVA02-B-16":
            raise WeightsUnavailableError(f"{name} could not be fetched. Give its weights.")
        return seen

    monkeypatch.setattr("piaa.encoders.loading.load_encoder", load)
    monkeypatch.setattr("piaa.saving.reload_encoder", lambda *_, **__: ColorEncoder())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_devkit(Path("devkit"))

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["reproduce", *arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


def cells(table: str) -> dict[tuple[str, str], dict[str, str]]:
    with Path(f"reproduced/{table}.csv").open() as file:
        return {(row["row"], row["column"]): row for row in csv.DictReader(file)}


def test_a_table(run: Run, seen: SpeaksVoc) -> None:
    options = ("--root", "devkit", "--partial", "--rounds", "5")
    result = run("ablation", *options)
    found = cells("ablation")
    ours = found["PVCL + PAA", "voc2007"]
    assert ours["paper"] == "92.5"
    assert float(ours["difference"]) == pytest.approx(float(ours["ours"]) - 92.5, abs=0.1)
    assert found["auto (not in the paper)", "voc2007"]["paper"] == ""
    assert "no data" in found["PVCL + PAA", "coco2014"]["not run because"]
    assert "paper  ours diff." in result.stdout
    assert "not run:" in result.stdout
    page = Path("reproduced/ablation.md").read_text()
    assert "trainval has 12 images in place of 5011" in page
    assert Path("reproduced/ablation.svg").stat().st_size > 1000
    encoded = seen.n_encoded
    run("bank-size", "alpha", *options)
    assert seen.n_encoded == encoded, "sweeps read what the ablation encoded"
    assert cells("alpha")["alpha = 0.9", "voc2007"]["ours"] == ours["ours"]
    assert Path("reproduced/bank-size.svg").exists()


def test_another_encoder_in_place_of_the_papers(run: Run) -> None:
    result = run(
        "frontends", "--root", "devkit", "--partial", "--with-encoder", "lite", "--limit", "8"
    )
    assert "with lite in place of the paper's encoder" in result.stdout
    assert "lite has no front-ends" in cells("frontends")["SCLIP", "voc2007"]["not run because"]


def test_data_that_is_not_complete_is_an_error_without_partial(run: Run) -> None:
    run("ablation", "--root", "voc2007=devkit")
    why = cells("ablation")["PVCL", "voc2007"]["not run because"]
    assert "in place of 5011" in why
    assert "--partial" in why


def test_missing_weights_are_told(run: Run) -> None:
    options = ("--root", "voc2007=devkit", "--partial", "--rounds", "5", "--out", "reproduced")
    run("backbones", *options)
    found = cells("backbones")
    assert found["EVA-02-CLIP ViT-B/16", "voc2007"]["not run because"].startswith(
        "EVA02-B-16 could"
    )
    assert found["CLIP ViT-L/14", "voc2007"]["ours"]


def test_figures_of_tables(run: Run) -> None:
    run("figures", "--root", "devkit", "--partial", "--rounds", "5", "--limit", "6")
    names = {path.name for path in Path("reproduced").glob("*.svg")}
    assert names == {"main.svg", "bank-size.svg", "alpha.svg"}


def test_figures_of_photographs(run: Run) -> None:
    recognizer = Recognizer(ColorEncoder(), CLASSES)
    with warnings.catch_warnings(action="ignore"):
        recognizer.fit(pictures(12))
    recognizer.save("colors.piaa")
    pictures(1)[0].save("photo.png")
    run("figures", "--image", "photo.png", "--model", "colors.piaa", "--class", "red")
    names = {path.name for path in Path("reproduced").iterdir()}
    assert names == {"attention.png", "before-after.png", "retained.png"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["table-1"], "Unknown table 'table-1'"),
        (["main", "--image", "x.png"], "are for figures"),
        (["figures"], "need photographs with a model"),
        (["figures", "--image", "x.png"], "both --image and --model"),
        (["main", "--root", "nowhere"], "is not a folder"),
        (["main", "--weights-of", "clip.safetensors"], "takes NAME=VALUE"),
    ],
)
def test_what_does_not_work(run: Run, options: list[str], message: str) -> None:
    assert message in run(*options, code=2).stderr


def test_without_matplotlib_there_are_tables_still(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("ablation", "--root", "devkit", "--partial", "--rounds", "5", "--limit", "8")
    assert "piaa[report]" in result.stderr
    assert cells("ablation")["PVCL", "voc2007"]["ours"]


def test_words_of_voc() -> None:
    assert set(COLORS) <= set(VOC)
