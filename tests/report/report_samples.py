"""A small report of colored squares, and how to read its data."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image

from fake_encoder import SMALL_BANKS, ColorEncoder, squares
from piaa import Recognizer
from piaa.errors import ImageError
from piaa.report import ReportSummary, write_report

HOSTILE_FILE = "<img src=x onerror=alert(1)>.jpg"
HOSTILE_CLASS = "<script>alert(2)</script> & black"
ROTATED = "rotated.jpg"
KINDS = (["red"], ["green"], ["blue"], ["red", "blue"], ["green", "red"], ["blue", "green"])


class Made(NamedTuple):
    """A report, what it was made of, and its data."""

    summary: ReportSummary
    recognizer: Recognizer
    photos: Path
    errors: list[tuple[Path, str]]
    index: dict[str, Any]

    @property
    def folder(self) -> Path:
        return self.summary.page.parent


def data_of(folder: Path, name: str) -> Any:
    """What a data script hands to the page."""
    script = (folder / "data" / f"{name}.js").read_text(encoding="ascii")
    opening = f"piaa.receive({json.dumps(name)},"
    assert script.startswith(opening)
    assert script.endswith(");\n")
    return json.loads(script[len(opening) : -3])


def write_photos(folder: Path, count: int = 40) -> None:
    """Colored squares as PNG, of several shapes; one turned by its EXIF, one badly named, one broken."""
    (folder / "more").mkdir(parents=True)
    for i in range(count):
        size = ((64, 96), (96, 64), (80, 80))[i % 3]
        place = folder / "more" if i % 2 else folder
        squares(i, KINDS[i % len(KINDS)], size=size).save(place / f"{i:03d}.png")
    squares(100, ["red"]).save(folder / HOSTILE_FILE, quality=95)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    exif[0x010E] = "a private remark"
    squares(101, ["green"], size=(50, 120)).save(folder / ROTATED, quality=95, exif=exif)
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not much more")


_made: list[Made] = []


def small_report(factory: pytest.TempPathFactory) -> Made:
    """A report on `write_photos`, written once a session; nobody changes it."""
    if not _made:
        _made.append(_write(factory.mktemp("report")))
    return _made[0]


def _write(base: Path) -> Made:
    photos = base / "photos"
    write_photos(photos)
    classes = {"red": [], "green": [], "blue": [], HOSTILE_CLASS: []}
    recognizer = Recognizer(ColorEncoder(), classes, config=SMALL_BANKS)
    with warnings.catch_warnings(action="ignore"):  # little evidence of the badly named class
        recognizer.fit(sorted(photos.rglob("*.png")))
    errors: list[tuple[Path, str]] = []

    def on_error(index: int, source: object, error: ImageError) -> None:
        errors.append((Path(str(source)), error.reason))

    summary = write_report(
        recognizer, photos, base / "report", title="Squares <b>", on_error=on_error
    )
    return Made(summary, recognizer, photos, errors, data_of(base / "report", "index"))
