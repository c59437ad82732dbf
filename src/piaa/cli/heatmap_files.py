"""Heatmaps of tags over their pictures, as files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from piaa.atomic import whole_file
from piaa.cli.failures import shown
from piaa.errors import InputError

if TYPE_CHECKING:
    from piaa.classes.class_list import ClassList
    from piaa.prediction import Prediction

LONGEST_SIDE = 1280


class HeatmapFiles:
    """Writes `<folder>/<path of the picture below the common folder>.<class>.jpg` for each tag."""

    def __init__(self, folder: Path, files: Sequence[Path], classes: ClassList) -> None:
        self._folder = folder
        self._root = os.path.commonpath([path.absolute().parent for path in files])
        self._names = _file_names(classes.names)

    def write(self, prediction: Prediction) -> dict[str, Path]:
        """The files written, by class."""
        from piaa.heatmaps import overlay

        if prediction.source is None:
            raise InputError("A heatmap needs the picture's file.")
        below = Path(os.path.relpath(Path(prediction.source).absolute(), self._root))
        written = {}
        for name, _ in prediction.tags:
            target = self._folder / f"{below}.{self._names[name]}.jpg"
            picture = overlay(prediction.source, prediction.image_heatmap(name))
            picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(target) as temporary:
                    picture.save(temporary, "JPEG", quality=88)
            except OSError as error:
                reason = error.strerror or error
                raise InputError(f"{shown(target)!r} cannot be written: {reason}.") from error
            written[name] = target
        return written


def _file_names(classes: Sequence[str]) -> dict[str, str]:
    """Each class's own part of a file name.

    >>> _file_names(["cat", "mouse (computer)", "mouse computer"])
    {'cat': 'cat', 'mouse (computer)': 'mouse-computer', 'mouse computer': 'mouse-computer-2'}
    """
    names: dict[str, str] = {}
    for name in classes:
        plain = re.sub(r"\W+", "-", name).strip("-") or "class"
        taken = sum(re.fullmatch(rf"{plain}(-\d+)?", other) is not None for other in names.values())
        names[name] = f"{plain}-{taken + 1}" if taken else plain
    return names
