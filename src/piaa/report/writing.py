"""Photographs and a recognizer to a folder with a page."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from piaa import __version__
from piaa.errors import ImageError, InputError
from piaa.heatmaps import COLORS
from piaa.images import OnError, list_images
from piaa.recognizer import Recognizer
from piaa.report.collecting import Collected, collect
from piaa.report.entries import SCORE_LEVELS, BankPatch, as_base64, map_kinds
from piaa.report.folder import outside_reports, report_folder
from piaa.report.page import CHUNK, write_data, write_static
from piaa.report.patches import choose, write_crops


@dataclass(frozen=True)
class ReportSummary:
    """A written report: its page, the photographs in it, and those left out with the reason."""

    page: Path
    n_photos: int
    skipped: tuple[tuple[Path, ImageError], ...]


def write_report(
    recognizer: Recognizer,
    photos: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    title: str | None = None,
    threshold: float = 0.5,
    photo_size: int = 1024,
    force: bool = False,
    batch_size: int | None = None,
    on_error: OnError | None = None,
    on_photo: Callable[[], None] | None = None,
) -> ReportSummary:
    """Write a page about photographs into the folder `out`: open its index.html in any browser.

    Args:
        photos: A folder, or paths of photographs. Copies that belong to a report are left out, so
            that a report may lie among the photographs.
        title: Of the page. Default: the name of the folder that holds all photographs.
        threshold: Tags are classes with at least this score; 0.5 is each class's own threshold.
        photo_size: Longest side of the copies for the large view, in pixels.
        force: Replace an earlier report. Anything else that is there is never touched.
        on_error: Without it the first unreadable photograph raises ImageError. With it such a
            photograph is left out and listed in the report, and on_error(index, source, error) is
            called.
        on_photo: Called as each photograph is done.
    """
    if type(photo_size) is not int or not 64 <= photo_size <= 8192:
        raise InputError(
            f"photo_size must be a whole number of pixels from 64 to 8192, not {photo_size!r}."
        )
    paths = _paths(photos)
    target = Path(os.path.abspath(out))  # noqa: PTH100 -- resolve() would follow a link at `out`
    with report_folder(target, force=force) as folder:
        for name in ("data", "thumbs", "photos", "patches"):
            (folder / name).mkdir()
        collected = collect(
            recognizer,
            paths,
            folder,
            threshold=threshold,
            photo_size=photo_size,
            batch_size=batch_size,
            on_error=on_error,
            on_photo=on_photo,
        )
        write_page(recognizer, collected, folder, title=title, threshold=threshold)
    return ReportSummary(target / "index.html", len(collected.paths), tuple(collected.skipped))


def write_page(
    recognizer: Recognizer,
    collected: Collected,
    folder: Path,
    *,
    title: str | None,
    threshold: float,
) -> None:
    """Everything that needs the whole collection: patches of the banks, the index, the page itself."""
    found: dict[int, list[tuple[int, BankPatch]]] = defaultdict(list)
    for entry, patch in collected.patches:
        found[patch.column].append((entry, patch))
    chosen = {column: choose(patches) for column, patches in found.items()}
    write_crops(chosen, collected.numbers, folder)
    root = _root([*collected.paths, *(path for path, _ in collected.skipped)])
    facts = recognizer.report.classes if recognizer.is_fitted else [None] * len(recognizer.classes)
    classes = [
        {
            "name": name,
            "phrases": phrases,
            "fit": None if fact is None else {**asdict(fact), "warning": fact.warning},
            "found": len(found[column]),
            "patches": [(entry, patch.cell) for entry, patch in chosen.get(column, [])],
        }
        for column, (name, phrases, fact) in enumerate(
            zip(recognizer.classes.names, recognizer.classes.phrases, facts, strict=True)
        )
    ]
    index: dict[str, Any] = {
        "title": title or root.name or "Photographs",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "encoder": recognizer.encoder.spec.name,
        "frontend": recognizer.encoder.spec.frontend,
        "fitted": recognizer.report.n_images if recognizer.is_fitted else 0,
        "threshold": threshold,
        "colors": COLORS,
        "grid": collected.grid,
        "windows": collected.windows,
        "kinds": map_kinds(recognizer),
        "chunk": CHUNK,
        "classes": classes,
        "names": [_name(path, root) for path in collected.paths],
        "numbers": collected.numbers,
        "sizes": collected.sizes,
        "tags": collected.tags,
        "levels": SCORE_LEVELS,
        "scores": as_base64(np.stack(collected.scores)),
        "skipped": [(_name(path, root), error.reason) for path, error in collected.skipped],
    }
    write_data(folder, "index", index)
    write_static(folder)


def _paths(photos: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    if isinstance(photos, str | os.PathLike):
        paths = list_images(photos) if Path(photos).is_dir() else [Path(photos)]
    else:
        paths = [Path(photo) for photo in photos]
    if not paths:
        raise InputError("There are no photographs to report on: the list is empty.")
    return outside_reports(paths)


def _root(paths: Sequence[Path]) -> Path:
    """The folder that holds all photographs: names in the report begin below it."""
    folders = {os.path.abspath(path.parent) for path in paths}  # noqa: PTH100 -- keep links
    try:
        return Path(os.path.commonpath(folders))
    except ValueError:  # on several drives
        return Path()


def _name(path: Path, root: Path) -> str:
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 -- keep links
    return absolute.relative_to(root).as_posix() if root.parts else absolute.as_posix()
