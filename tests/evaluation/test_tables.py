"""The paper's numbers, the cells made of them, and filled tables."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from piaa.errors import UnknownNameError
from piaa.evaluation.cells import AUTO, Cell, Job, list_tables, table_cells
from piaa.evaluation.forms import Form
from piaa.evaluation.jobs import Outcome, Result
from piaa.evaluation.paper import DATASETS, paper_table, printed
from piaa.evaluation.plots import plot_filled
from piaa.evaluation.tables import fill, gaps, to_csv, to_markdown, to_rich


@pytest.mark.parametrize("name", ["frontends", "backbones"])
def test_printed_averages_are_those_of_the_rows(name: str) -> None:
    for row in paper_table(name):
        mean = np.mean([float(row[key]) for key in DATASETS])
        assert mean == pytest.approx(float(row["average"]), abs=0.1)


def test_tables_agree_where_they_print_the_same_run() -> None:
    main = {row["method"]: row for row in paper_table("main")}["PIAA (SC-CLIP front-end)"]
    ablation, frontends = paper_table("ablation")[3], paper_table("frontends")[-1]
    for key in DATASETS:
        assert main[key] == ablation[key] == frontends[key]


def test_every_printed_number_has_its_cell() -> None:
    for name in ("main", "ablation", "frontends", "backbones"):
        numbers = sorted(
            printed(row[key]) for row in paper_table(name) for key in DATASETS if row[key]
        )
        cells = table_cells(name)
        assert sorted(c.paper for c in cells if c.paper is not None) == numbers
    assert len(table_cells("scale")) == 3 * len(paper_table("scale"))
    assert list_tables() == [
        "main", "ablation", "frontends", "backbones", "bank-size", "alpha", "timing", "scale",
    ]  # fmt: skip


def test_cells_know_how_to_run() -> None:
    cells = {(cell.row, cell.column): cell for cell in table_cells("backbones")}
    cell = cells["EVA-02-CLIP ViT-L/14 + PIAA", "nuswide"]
    assert (cell.paper, cell.job) == (49.4, Job("nuswide", "EVA02-L-14", "clip", Form("piaa")))
    cell = cells["CLIP ViT-B/16, auto", "voc2007"]
    assert (cell.paper, cell.job) == (None, Job("voc2007", "ViT-B-16", "clip", AUTO))
    trained = next(cell for cell in table_cells("main") if cell.row == "CCD")
    assert trained.job is None
    assert "trained" in trained.reason


def test_the_same_run_is_the_same_job_in_every_table() -> None:
    jobs = [
        {cell.job for cell in table_cells(name) if cell.job is not None}
        for name in ("main", "ablation", "frontends", "bank-size", "alpha", "scale")
    ]
    shared = Job("voc2012", "ViT-B-16", "sc-clip", Form("piaa"))
    assert all(shared in some for some in jobs)


def test_another_encoder() -> None:
    cells = table_cells("frontends", encoder="lite")
    ran = {cell.row for cell in cells if cell.job is not None}
    assert ran == {"SC-CLIP", "SC-CLIP + PIAA", "SC-CLIP, auto"}
    assert {cell.reason for cell in cells if cell.job is None} == {"lite has no front-ends"}
    swapped = table_cells("frontends", encoder="ViT-L-14")
    assert {cell.job.encoder for cell in swapped if cell.job is not None} == {"ViT-L-14"}
    with pytest.raises(UnknownNameError, match="main, ablation"):
        table_cells("table 1")


RESULT = Result(0.925, 0.915, 0.935, {"red": 0.5}, 0.25, 0.5)


@pytest.fixture
def filled() -> list:
    job, other = Job("voc2007", "e", None, Form("piaa")), Job("nuswide", "e", None, Form("piaa"))
    cells = [
        Cell("PIAA", "voc2007", 92.0, job),
        Cell("PIAA", "nuswide", 50.6, other),
        Cell("CCD", "voc2007", 91.0, None, "trained"),
        Cell("red", "voc2007", None, job, "", "class", "red"),
        Cell("blue", "voc2007", None, job, "", "class", "blue"),
        Cell("minutes", "voc2007", 0.2, job, "", "learn_minutes"),
    ]
    return fill(cells, Outcome({job: RESULT}, {other: "no data: give its --root"}))


def test_csv(filled: list) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(filled))))
    assert rows[0] == {
        "row": "PIAA",
        "column": "voc2007",
        "paper": "92",
        "ours": "92.5",
        "low": "91.5",
        "high": "93.5",
        "difference": "0.5",
        "not run because": "",
    }
    assert rows[1]["ours"] == ""
    assert rows[1]["not run because"] == "no data: give its --root"
    assert [row["ours"] for row in rows[2:]] == ["", "50", "", "0.25"]
    assert rows[4]["not run because"] == "no positive image"


def test_markdown_and_terminal(filled: list) -> None:
    text = to_markdown(filled)
    assert "| PIAA | 92.0 | 92.5 | +0.5 | 50.6 | - |  |" in text
    assert "- PIAA (nuswide): no data: give its --root" in text
    assert gaps(filled)["trained"] == "CCD (voc2007)"
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(to_rich(filled, "main"))
    assert "92.0  92.5  +0.5" in console.export_text()


def test_plots(filled: list, tmp_path: Path) -> None:
    plot_filled("main", filled, tmp_path / "a.svg", title="main")
    plot_filled("main", filled, tmp_path / "b.svg", title="main")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    cells = [c for c in table_cells("alpha") if c.column == "voc2007"]
    outcome = Outcome({cell.job: RESULT for cell in cells if cell.job is not None}, {})
    plot_filled("alpha", fill(cells, outcome), tmp_path / "alpha.png", title="alpha")
    assert (tmp_path / "alpha.png").stat().st_size > 1000
