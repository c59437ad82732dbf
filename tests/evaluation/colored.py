"""A data set of colored squares on disk, and an encoder that sees colors and counts what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from fake_encoder import CLASSES, ColorEncoder, squares
from piaa.encoders.base import ImageFeatures
from piaa.images import ImageSource, OnError

KINDS = (["red"], ["green"], ["blue"], ["red", "blue"], ["green", "red"], [])


class CountingEncoder(ColorEncoder):
    """Knows how many pictures it has encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.n_encoded = 0

    def stream_images(
        self,
        images: Iterable[ImageSource],
        *,
        batch_size: int | None = None,
        on_error: OnError | None = None,
    ) -> Iterator[ImageFeatures]:
        for part in super().stream_images(images, batch_size=batch_size, on_error=on_error):
            self.n_encoded += len(part)
            yield part


def make_folder(folder: Path, n_learn: int = 12, n_test: int = 12) -> Path:
    """A `folder` data set of pictures with squares."""
    folder.mkdir(parents=True)
    lines = ["image,labels,split"]
    for place in range(n_learn + n_test):
        colors = KINDS[place % len(KINDS)]
        squares(place, colors).save(folder / f"{place:03d}.png")
        split = "learn" if place < n_learn else "test"
        lines.append(f"{place:03d}.png,{';'.join(colors)},{split}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n")
    return folder
