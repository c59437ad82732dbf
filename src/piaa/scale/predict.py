"""Predictions of a collection in units: those of each unit are a file of JSON lines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from piaa.atomic import write_whole
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import ArtifactError
from piaa.images.placement import Size
from piaa.recognizer import Recognizer
from piaa.scale.fit import recognizer_options
from piaa.scale.job import discard, open_job
from piaa.scale.local import Engine, Here, Worked
from piaa.scale.unit_images import UnitImages
from piaa.scale.units import Readable, Unit
from piaa.scale.watching import Watch

FORMAT: Final = "piaa-unit-predictions"
VERSION: Final = 1


@dataclass(frozen=True)
class Tagged:
    """What `Prediction` says of a picture, less its heatmaps and the scores of other classes."""

    source: str | None
    size: Size | None
    tags: list[tuple[str, float]]


@contextmanager
def predict_units(
    recognizer: Recognizer,
    units: Sequence[Unit],
    folder: Path,
    *,
    watch: Watch,
    engine: Engine | None = None,
    threshold: float = 0.5,
    top_k: int | None = None,
    batch_size: int | None = None,
    restart: bool = False,
) -> Iterator[Iterator[Tagged]]:
    """Predict units and give all predictions in order; killed at any moment, the same call goes on.

    Results are kept in `folder` and removed when the block ends without an error: by then the caller has
    written them where they belong.

        with predict_units(recognizer, units, unfinished(out), watch=tally) as predictions:
            write(predictions)

    Args: as of `Recognizer.predict` and `piaa.scale.fit.fit_units`.
    """
    options = {
        "command": "predict",
        **recognizer_options(recognizer),
        "threshold": threshold,
        "top_k": top_k,
        "batch_size": batch_size,
    }
    # Wrong arguments are refused here, before there is a job.
    recognizer.stream([], threshold=threshold, top_k=top_k, batch_size=batch_size)
    with open_job(folder, units, options, recognizer, restart=restart) as job:
        todo = [unit for unit in job.units if not _take_over(job.result(unit), watch)]
        work_of = partial(
            PredictWork,
            recognizer=job.recognizer,
            threshold=threshold,
            top_k=top_k,
            batch_size=batch_size,
        )
        (engine or Here()).run(work_of, recognizer.encoder, job, todo, watch)
        yield (tagged for unit in job.units for tagged in _read(job.result(unit))[1])
        job.remove()


class PredictWork:
    """Predicts a unit."""

    def __init__(
        self,
        encoder: Encoder,
        *,
        recognizer: Path,
        threshold: float,
        top_k: int | None,
        batch_size: int | None,
    ) -> None:
        self._recognizer, self._batch_size = Recognizer.load(recognizer, encoder), batch_size
        self._threshold, self._top_k = threshold, top_k

    def __call__(self, unit: Readable, target: Path, watch: Watch) -> Worked:
        images = UnitImages(unit, watch)
        lines: list[bytes] = []
        encoder = self._recognizer.encoder
        for features, sources in images.batches(encoder, batch_size=self._batch_size):
            with images.timed("score", len(features)):
                lines += self._lines(features, sources)
        return Worked(images.count, partial(_write, target, lines, images.facts()))

    def _lines(self, features: ImageFeatures, sources: Sequence[str | None]) -> Iterator[bytes]:
        predictions = self._recognizer.stream(
            features, threshold=self._threshold, top_k=self._top_k, heatmaps=False
        )
        for prediction, source in zip(predictions, sources, strict=True):
            tagged = Tagged(source, prediction.size, prediction.tags)
            yield json.dumps(asdict(tagged)).encode() + b"\n"


def _write(target: Path, lines: Sequence[bytes], facts: dict[str, Any]) -> None:
    content = b"".join(lines)
    digest = hashlib.sha256(content).hexdigest()
    header = {"format": FORMAT, "version": VERSION, **facts, "sha256": digest}
    write_whole(target, json.dumps(header).encode(), b"\n", content)


def _read(path: Path) -> tuple[dict[str, Any], list[Tagged]]:
    try:
        first, _, content = path.read_bytes().partition(b"\n")
        header = json.loads(first)
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ValueError(f"it is of format {header['format']!r}, version {header['version']!r}")
        if hashlib.sha256(content).hexdigest() != header["sha256"]:
            raise ValueError("its lines do not match their hash")
        header["skipped"] = [(str(name), str(reason)) for name, reason in header["skipped"]]
        return header, [_tagged(json.loads(line)) for line in content.splitlines()]
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ArtifactError(f"{path} is no whole file of predictions: {error}.") from error


def _tagged(record: dict[str, Any]) -> Tagged:
    size = record["size"]
    tags = [(str(name), float(score)) for name, score in record["tags"]]
    return Tagged(record["source"], None if size is None else (size[0], size[1]), tags)


def _take_over(path: Path, watch: Watch) -> bool:
    """Tell of a unit that a run before this one has done; False if there is none, or it is damaged."""
    if not path.exists():
        return False
    try:
        header, predictions = _read(path)
    except ArtifactError as error:
        discard(path, error)
        return False
    for name, reason in header["skipped"]:
        watch.skip(name, reason)
    watch.finish(len(predictions), earlier=True)
    return True
