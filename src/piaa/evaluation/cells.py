"""The paper's tables as cells: what each number is of, and what has to be run to get ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from piaa.encoders.lite.sources import LITE_ENCODERS
from piaa.errors import UnknownNameError
from piaa.evaluation.forms import Form
from piaa.evaluation.paper import DATASETS, paper_table, printed

Measure = Literal["map", "class", "learn_minutes", "test_minutes"]

AUTO: Final = "auto"
"""The default of `piaa.Recognizer`, in place of a form of the paper."""
REFERENCE: Final = "reference"
"""The published constants through `piaa.Recognizer`, learning and scoring timed apart."""
TRAINED: Final = "a trained method: printed as published"
BANK_SIZES: Final = (128, 256, 512, 768, 1024, 1280, 1536)
ALPHAS: Final = tuple(round(0.1 * step, 1) for step in range(11))
_FRONTENDS: Final = {
    "CLIP": "clip",
    "SCLIP": "sclip",
    "ITACLIP": "itaclip",
    "SC-CLIP": "sc-clip",
    "vanilla CLIP patches": "clip",
    "unstated (assume vanilla)": "clip",
}
_BACKBONES: Final = {
    ("CLIP", "ViT-B/16"): "ViT-B-16",
    ("CLIP", "ViT-L/14"): "ViT-L-14",
    ("EVA-02-CLIP", "ViT-B/16"): "EVA02-B-16",
    ("EVA-02-CLIP", "ViT-L/14"): "EVA02-L-14",
}


@dataclass(frozen=True)
class Job:
    """A run whose result fills cells.

    Attributes:
        what: a form of the paper's method, "auto", "reference", or the name of a rival.
    """

    dataset: str
    encoder: str
    frontend: str | None
    what: Form | str

    @property
    def name(self) -> str:
        """For people and for files."""
        what = self.what
        if isinstance(what, Form):
            extra = f" K={what.bank_size}" if what.learnt else ""
            extra += f" alpha={what.alpha:g}" if what.name in ("piaa", "text+cls") else ""
            what = f"{what.name}{extra}"
        return f"{self.dataset}, {self.encoder}, {self.frontend or 'no front-end'}, {what}"


@dataclass(frozen=True)
class Cell:
    """A place in a table.

    Attributes:
        row, column: its headings.
        paper: the printed number, in percent or minutes; None if the paper has none.
        job: what gives our number; None if nothing in piaa does, for the `reason`.
        measure: which number of the job's result; "class" is the AP of `class_name`.
    """

    row: str
    column: str
    paper: float | None
    job: Job | None
    reason: str = ""
    measure: Measure = "map"
    class_name: str = ""


def table_cells(table: str, *, encoder: str | None = None) -> list[Cell]:
    """All cells of a table, row by row.

    Args:
        encoder: run every cell with this one in place of the paper's.
    """
    if table not in _BUILDERS:
        raise UnknownNameError("table", table, list_tables())
    cells = list(_BUILDERS[table]())
    return cells if encoder is None else [_with_encoder(cell, encoder) for cell in cells]


def list_tables() -> list[str]:
    """Names for `table_cells`."""
    return list(_BUILDERS)


def _with_encoder(cell: Cell, encoder: str) -> Cell:
    if cell.job is None:
        return cell
    frontend = cell.job.frontend
    if encoder in LITE_ENCODERS:
        if frontend not in (None, "sc-clip"):
            return replace(cell, job=None, reason=f"{encoder} has no front-ends")
        frontend = None
    return replace(cell, job=replace(cell.job, encoder=encoder, frontend=frontend))


def _main() -> Iterator[Cell]:
    runs: dict[str, Form | str] = {
        "CLIP (CLS)": "cls",
        "TagCLIP": "tagclip",
        "SPARC": "sparc",
        "PIAA (SC-CLIP front-end)": Form("piaa"),
    }
    for row in paper_table("main"):
        what = runs.get(row["method"])
        for key, dataset in DATASETS.items():
            job = None if what is None else Job(dataset, "ViT-B-16", "sc-clip", what)
            reason = TRAINED if what is None else ""
            yield Cell(row["method"], dataset, printed(row[key]), job, reason)
    yield from _auto_row("PIAA, auto (not in the paper)", "ViT-B-16", "sc-clip")


def _ablation() -> Iterator[Cell]:
    names = {"00": "base", "01": "text+cls", "10": "pvcl", "11": "piaa"}
    shown = {"00": "neither", "01": "PAA", "10": "PVCL", "11": "PVCL + PAA"}
    for row in paper_table("ablation"):
        key = row["pvcl"] + row["paa"]
        form = Form(names[key])  # type: ignore[arg-type]
        yield from _row(shown[key], row, "ViT-B-16", _FRONTENDS[row["frontend"]], form)
    yield from _auto_row("auto (not in the paper)", "ViT-B-16", "sc-clip")


def _frontends() -> Iterator[Cell]:
    for row in paper_table("frontends"):
        with_piaa = row["piaa"] == "1"
        name = f"{row['frontend']}{' + PIAA' if with_piaa else ''}"
        frontend, form = _FRONTENDS[row["frontend"]], Form("piaa" if with_piaa else "base")
        yield from _row(name, row, "ViT-B-16", frontend, form)
        if with_piaa:
            yield from _auto_row(f"{row['frontend']}, auto", "ViT-B-16", frontend)


def _backbones() -> Iterator[Cell]:
    for row in paper_table("backbones"):
        with_piaa = row["piaa"] == "1"
        encoder, frontend = _BACKBONES[row["family"], row["backbone"]], _FRONTENDS[row["frontend"]]
        name = f"{row['family']} {row['backbone']}"
        form = Form("piaa" if with_piaa else "base")
        yield from _row(f"{name}{' + PIAA' if with_piaa else ''}", row, encoder, frontend, form)
        if with_piaa:
            yield from _auto_row(f"{name}, auto", encoder, frontend)


def _bank_size() -> Iterator[Cell]:
    for size in BANK_SIZES:
        for dataset in DATASETS.values():
            job = Job(dataset, "ViT-B-16", "sc-clip", Form("piaa", bank_size=size))
            yield Cell(f"K = {size}", dataset, None, job)


def _alpha() -> Iterator[Cell]:
    for alpha in ALPHAS:
        for dataset in DATASETS.values():
            job = Job(dataset, "ViT-B-16", "sc-clip", Form("piaa", alpha=alpha))
            yield Cell(f"alpha = {alpha:g}", dataset, None, job)


def _timing() -> Iterator[Cell]:
    names = dict(zip(("VOC12", "VOC07", "COCO", "NUS"), DATASETS.values(), strict=True))
    columns: tuple[tuple[str, str, str | None, Measure], ...] = (
        ("CCD, learn (min)", "learn_ccd_min", None, "learn_minutes"),
        ("PIAA, learn (min)", "learn_piaa_min", REFERENCE, "learn_minutes"),
        ("TagCLIP, test (min)", "test_tagclip_min", "tagclip", "test_minutes"),
        ("PIAA, test (min)", "test_piaa_min", REFERENCE, "test_minutes"),
    )
    for row, key, what, measure in columns:
        for line in paper_table("timing"):
            if line["dataset"] not in names:
                continue  # the averages
            dataset = names[line["dataset"]]
            job = None if what is None else Job(dataset, "ViT-B-16", "sc-clip", what)
            reason = TRAINED if what is None else ""
            yield Cell(row, dataset, printed(line[key]), job, reason, measure)


def _scale() -> Iterator[Cell]:
    names = {"COCO": "coco2014", "NUS": "nuswide", "VOC12": "voc2012"}
    forms: dict[str, Form] = {"cls": Form("cls"), "patch": Form("pvcl"), "piaa": Form("piaa")}
    for line in paper_table("scale"):
        dataset = names[line["dataset"]]
        row = f"{dataset}, {line['scale']}: {line['class']}"
        for column, form in forms.items():
            job = Job(dataset, "ViT-B-16", "sc-clip", form)
            yield Cell(row, column, printed(line[column]), job, "", "class", line["class"])


def _row(name: str, row: dict[str, str], encoder: str, frontend: str, form: Form) -> Iterator[Cell]:
    for key, dataset in DATASETS.items():
        yield Cell(name, dataset, printed(row[key]), Job(dataset, encoder, frontend, form))


def _auto_row(name: str, encoder: str, frontend: str) -> Iterator[Cell]:
    for dataset in DATASETS.values():
        yield Cell(name, dataset, None, Job(dataset, encoder, frontend, AUTO))


_BUILDERS: Final[dict[str, Callable[[], Iterator[Cell]]]] = {
    "main": _main,
    "ablation": _ablation,
    "frontends": _frontends,
    "backbones": _backbones,
    "bank-size": _bank_size,
    "alpha": _alpha,
    "timing": _timing,
    "scale": _scale,
}
