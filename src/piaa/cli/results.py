"""Predictions as text: a table for people, JSON lines, CSV and COCO for programs; or as a Parquet table.

Writers take one prediction at a time and, but for COCO, write it at once.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import typer
from rich.cells import cell_len, set_cell_size

from piaa.cli.parquet_results import ParquetResults
from piaa.errors import InputError

if TYPE_CHECKING:
    from piaa.classes.class_list import ClassList


class Format(StrEnum):
    """How predictions are written."""

    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    coco = "coco"
    parquet = "parquet"


_BY_SUFFIX = {
    ".jsonl": Format.jsonl,
    ".ndjson": Format.jsonl,
    ".csv": Format.csv,
    ".json": Format.coco,
    ".txt": Format.table,
    ".parquet": Format.parquet,
}


class Tagged(Protocol):
    """A picture and its tags: what writers need of a `Prediction`, here or from a unit of work."""

    @property
    def source(self) -> str | None: ...

    @property
    def size(self) -> tuple[int, int] | None: ...

    @property
    def tags(self) -> list[tuple[str, float]]: ...


class Writer(Protocol):
    """Takes predictions in order, and for each the files of its heatmaps by class."""

    def add(self, prediction: Tagged, heatmaps: Mapping[str, Path]) -> None: ...

    def finish(self) -> None: ...


def choose_format(asked: Format | None, as_json: bool, out: Path | None) -> Format:
    """--format, else --json, else what the suffix of --out says, else a table."""
    if as_json:
        if asked not in (None, Format.jsonl):
            raise InputError(f"--json is --format jsonl and cannot go with --format {asked}.")
        return Format.jsonl
    if asked is not None:
        return asked
    if out is None:
        return Format.table
    if out.suffix.lower() not in _BY_SUFFIX:
        raise InputError(
            f"--out {str(out)!r} does not tell its format. Name it {', '.join(_BY_SUFFIX)}, or give "
            "--format."
        )
    return _BY_SUFFIX[out.suffix.lower()]


def make_writer(
    format: Format, file: TextIO, *, classes: ClassList, names: Sequence[str], width: int | None
) -> Writer:
    """A writer to `file`.

    Args:
        names: of the files that will come, by which the table knows how wide its first column is.
        width: of the terminal that a table is for; None leaves lines as long as they are.
    """
    match format:
        case Format.table:
            return _Table(file, names, width)
        case Format.jsonl:
            return _JsonLines(file)
        case Format.csv:
            return _Csv(file)
        case Format.coco:
            return _Coco(file, classes)
        case Format.parquet:
            return ParquetResults(file.buffer)


def _score(value: float) -> float:
    return round(value, 4)


class _Table:
    def __init__(self, file: TextIO, names: Sequence[str], width: int | None) -> None:
        self._file, self._width = file, width
        longest = max(map(cell_len, names), default=0)
        self._column = longest if width is None else min(longest, max(16, width * 2 // 5))

    def add(self, prediction: Tagged, heatmaps: Mapping[str, Path]) -> None:  # noqa: ARG002
        tags = [(name, f"{score:.2f}") for name, score in prediction.tags]
        first, *others = self._lines(tags) or [self._faint("-")]
        self._file.write(f"{self._name(str(prediction.source))}  {first}\n")
        for line in others:
            self._file.write(" " * (self._column + 2) + line + "\n")
        self._file.flush()

    def finish(self) -> None:
        pass

    def _name(self, path: str) -> str:
        if self._width is None:  # pictures of an archive may have longer names than was known
            return set_cell_size(path, max(cell_len(path), self._column))
        if cell_len(path) > self._column:  # the end of a path tells more than its beginning
            while cell_len(path) > self._column - 1:
                path = path[1:]
            path = "…" + path
        return set_cell_size(path, self._column)

    def _lines(self, tags: Sequence[tuple[str, str]]) -> list[str]:
        room = None if self._width is None else max(20, self._width - self._column - 2)
        lines: list[list[str]] = []
        used = 0
        for name, score in tags:
            size = cell_len(name) + len(score) + 3
            if not lines or (room is not None and used + size > room):
                lines.append([])
                used = 0
            used += size
            lines[-1].append(f"{name} {self._faint(score)}")
        return ["  ".join(line) for line in lines]

    def _faint(self, text: str) -> str:
        return text if self._width is None else typer.style(text, dim=True)


class _JsonLines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, prediction: Tagged, heatmaps: Mapping[str, Path]) -> None:
        tags: list[dict[str, Any]] = []
        for name, score in prediction.tags:
            tags.append({"name": name, "score": _score(score)})
            if name in heatmaps:
                tags[-1]["heatmap"] = str(heatmaps[name])
        height, width = prediction.size or (None, None)
        line = {"file": prediction.source, "width": width, "height": height, "tags": tags}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()

    def finish(self) -> None:
        pass


class _Csv:
    """One row a tag; a picture without tags has one row with both other fields empty."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._rows = csv.writer(file, lineterminator="\n")
        self._rows.writerow(["file", "class", "score"])

    def add(self, prediction: Tagged, heatmaps: Mapping[str, Path]) -> None:  # noqa: ARG002
        tags = [(name, str(_score(score))) for name, score in prediction.tags]
        self._rows.writerows((prediction.source, *tag) for tag in tags or [("", "")])
        self._file.flush()

    def finish(self) -> None:
        pass


class _Coco:
    """A COCO dataset of whole pictures: an annotation is a tag, its box the picture."""

    def __init__(self, file: TextIO, classes: ClassList) -> None:
        self._file = file
        self._ids = {name: number for number, name in enumerate(classes.names, start=1)}
        self._images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []

    def add(self, prediction: Tagged, heatmaps: Mapping[str, Path]) -> None:  # noqa: ARG002
        height, width = prediction.size or (0, 0)
        image = len(self._images) + 1
        self._images.append(
            {"id": image, "file_name": prediction.source, "width": width, "height": height}
        )
        for name, score in prediction.tags:
            self._annotations.append(
                {
                    "id": len(self._annotations) + 1,
                    "image_id": image,
                    "category_id": self._ids[name],
                    "bbox": [0, 0, width, height],
                    "area": width * height,
                    "iscrowd": 0,
                    "score": _score(score),
                }
            )

    def finish(self) -> None:
        from piaa import __version__

        content = {
            "info": {"description": f"Tags of whole pictures by piaa {__version__}"},
            "images": self._images,
            "annotations": self._annotations,
            "categories": [{"id": number, "name": name} for name, number in self._ids.items()],
        }
        json.dump(content, self._file, ensure_ascii=False, indent=1)
        self._file.write("\n")
