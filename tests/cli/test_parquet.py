"""`piaa predict --out tags.parquet` against the JSON lines of the same run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli_samples import Run
from test_predict import tags_of

from piaa.cli import parquet_results
from piaa.cli.parquet_results import ParquetResults
from piaa.scale.predict import Tagged

pytestmark = pytest.mark.usefixtures("colors")
parquet = pytest.importorskip("pyarrow.parquet")


def test_what_the_lines_say(run: Run, photos: Path, classes: Path) -> None:
    arguments = ("predict", photos, "-c", classes, "--unit-size", "5", "--out")
    run(*arguments, "tags.jsonl")
    run(*arguments, "tags.parquet")
    wanted = tags_of(Path("tags.jsonl").read_text())
    rows = parquet.read_table("tags.parquet").to_pylist()
    assert [row["path"] for row in rows] == list(wanted)
    for row in rows:
        assert (row["width"], row["height"]) == (64, 64)
        tags = list(zip(row["tags"], row["scores"], strict=True))
        assert [(name, round(score, 4)) for name, score in tags] == wanted[row["path"]]


def test_interrupted_while_it_was_written(
    run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of the table, the work is kept, and the next run gives the same bytes."""
    arguments = ("predict", photos, "-c", classes, "--unit-size", "5", "--out", "tags.parquet")
    run(*arguments)
    whole = Path("tags.parquet").read_bytes()

    def stop(self: ParquetResults) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ParquetResults, "finish", stop)
        run(*arguments, "--force", code=130)
    assert Path("tags.parquet").read_bytes() == whole
    assert len(list(Path("tags.parquet.unfinished").glob("unit-*"))) == 3
    assert "12 by runs before" in run(*arguments).stderr
    assert Path("tags.parquet").read_bytes() == whole


def test_row_groups_and_odd_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_results, "ROWS", 4)
    with (tmp_path / "tags.parquet").open("wb") as file:
        writer = ParquetResults(file)
        for number in range(9):
            writer.add(Tagged(f"caf\udce9-{number}.jpg", None, [] if number else [("ü", 0.5)]), {})
        writer.finish()
    table = parquet.ParquetFile(tmp_path / "tags.parquet")
    assert table.metadata.num_row_groups == 3
    rows = table.read().to_pylist()
    assert rows[0] == {
        "path": "caf\\udce9-0.jpg", "width": None, "height": None, "tags": ["ü"], "scores": [0.5],
    }  # fmt: skip
    assert rows[8]["tags"] == rows[8]["scores"] == []


def test_refusals(run: Run, photos: Path, classes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("predict", photos, "-c", classes, "--format", "parquet")
    assert "Give --out FILE" in run(*arguments, code=2).stderr
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "piaa[scale]" in run(*arguments, "--out", "tags.parquet", code=2).stderr
    assert not Path("tags.parquet.unfinished").exists()
