"""The ablation of any data set, against the recognizer it is of and scikit-learn's average precision."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
import torch

import piaa
from fake_encoder import ColorEncoder
from piaa.datasets import open_dataset

HERE = Path(__file__).parent
average_precision = pytest.importorskip("sklearn.metrics").average_precision_score


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (HERE.parents[1] / "benchmarks", HERE.parent / "evaluation"):
        monkeypatch.syspath_prepend(str(folder))


def test_of_a_folder_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from colored import make_folder

    import ablation

    root = make_folder(tmp_path / "set", n_learn=24, n_test=30)
    monkeypatch.setenv("PIAA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(piaa, "load_encoder", lambda *_, **__: ColorEncoder())
    ablation.main(["--dataset", "folder", "--root", str(root), "--rounds", "5"])
    lines = capsys.readouterr().out.splitlines()
    rows = [re.match(r"(.{32}) *(\d+\.\d\d)(?: +\[.*\])?$", line) for line in lines]
    found = {row[1].strip(): float(row[2]) for row in rows if row}
    assert "24 images to learn from, 30 to test on" in lines
    assert list(found) == [
        "text, patches",
        "text, global",
        "text, both (PAA alone)",
        "learned (PVCL alone)",
        "auto (PVCL + PAA)",
        "published constants, voc",
        "published constants, coco",
        "published constants, nus",
    ]
    assert max(found.values()) <= 100

    dataset = open_dataset("folder", root)
    recognizer = piaa.Recognizer(ColorEncoder(), dataset.classes, others=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recognizer.fit(dataset.learn.paths)
    scores = torch.stack([p.scores for p in recognizer.predict(dataset.test.paths)])
    wanted = average_precision(dataset.labels, scores.numpy(), average="macro")
    assert found["auto (PVCL + PAA)"] == pytest.approx(100 * wanted, abs=0.01)
