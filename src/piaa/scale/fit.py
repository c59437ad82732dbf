"""Learning from a collection in units: what each adds is a file, and all files together are the fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from piaa import __version__
from piaa.encoders.base import Encoder
from piaa.errors import ArtifactError, InputError
from piaa.fitting.fit_report import FitReport
from piaa.fitting.gathered import Gathered
from piaa.recognizer import Recognizer
from piaa.saving import as_artifact
from piaa.scale.fit_state import load_gathered, save_gathered
from piaa.scale.job import Job, discard, open_job
from piaa.scale.local import Engine, Here, Worked
from piaa.scale.unit_images import UnitImages
from piaa.scale.units import Readable, Unit
from piaa.scale.watching import Watch


def fit_units(
    recognizer: Recognizer,
    units: Sequence[Unit],
    out: str | os.PathLike[str],
    *,
    watch: Watch,
    engine: Engine | None = None,
    batch_size: int | None = None,
    restart: bool = False,
) -> FitReport:
    """Fit a recognizer on units and save it as `out`; killed at any moment, the same call goes on.

    The file equals that of a run without interruptions byte for byte, and that of `Recognizer.fit` where
    units are whole numbers of batches. Results of units are kept in `unfinished(out)` until the end.

    Args:
        units: of `piaa.scale.units.cut`.
        watch: is told of progress and of pictures that cannot be used; it may raise to end the job.
        engine: where the work is done. Default: in this process.
        restart: forget what another run has done.
    """
    target = Path(out)
    options = {"command": "fit", **recognizer_options(recognizer), "batch_size": batch_size}
    with open_job(unfinished(target), units, options, recognizer, restart=restart) as job:
        begun = Recognizer.load(job.recognizer, recognizer.encoder)
        total = Gathered(begun.prototypes, begun.config)
        todo = [unit for unit in job.units if not _take_over(job, unit, total, watch)]
        work_of = partial(FitWork, recognizer=job.recognizer, batch_size=batch_size)
        engine = engine or Here()
        work = engine.run(work_of, recognizer.encoder, job, todo, watch)
        if isinstance(work, FitWork):
            work.total.merge(total)  # the smaller into the larger
            total = work.total
        else:
            for path in engine.reduce(merge_results, job, [job.result(unit) for unit in todo]):
                total.merge(_load(path, total)[0])
        if total.n_images == 0:
            job.remove()
            raise InputError(
                "There is nothing to learn from: not one of the pictures could be read."
            )
        recognizer.prototypes = begun.prototypes
        report = recognizer.adopt(total)
        # Written among the job's files, which go with it: a killed run leaves nothing beside the target.
        recognizer.save(job.model)
        try:
            job.model.replace(target)
        except OSError as error:
            raise ArtifactError(f"{target} cannot be written: {error.strerror}.") from error
        job.remove()
    return report


def unfinished(out: Path) -> Path:
    """Where the state of a job is kept whose result is to be `out`."""
    return out.with_name(f"{out.name}.unfinished")


class FitWork:
    """Gathers a unit's banks and sample, less what cannot matter beside the units before.

    Attributes:
        total: of the units so far.
    """

    def __init__(self, encoder: Encoder, *, recognizer: Path, batch_size: int | None) -> None:
        self._encoder, self._batch_size = encoder, batch_size
        begun = Recognizer.load(recognizer, encoder)
        # What it turns away is beaten by K vectors that are in the files of the same job: leaving it out
        # changes no bit of the final result.
        self.total = Gathered(begun.prototypes, begun.config)

    def __call__(self, unit: Readable, target: Path, watch: Watch) -> Worked:
        images = UnitImages(unit, watch)
        gathered = self.total.successor()
        for batch, _ in images.batches(self._encoder, batch_size=self._batch_size):
            with images.timed("learn", len(batch)):
                gathered.add(batch)
        with images.timed("learn", 0):
            self.total.merge(gathered)
        return Worked(images.count, partial(save_gathered, target, gathered, images.facts()))


def _take_over(job: Job, unit: Unit, total: Gathered, watch: Watch) -> bool:
    """Add a unit that a run before this one has done; False if there is none, or it is damaged."""
    path = job.result(unit)
    if not path.exists():
        return False
    try:
        gathered, facts = _load(path, total)
        total.merge(gathered)
        images, skipped = int(facts["images"]), list(facts["skipped"])
    except (ArtifactError, InputError, KeyError, TypeError, ValueError) as error:
        discard(path, error)
        return False
    for name, reason in skipped:
        watch.skip(name, reason)
    watch.finish(images, earlier=True)
    return True


def merge_results(results: Sequence[Path], target: Path) -> None:
    """Write what several results come to.

    Merging is exact, whatever the order and the tree.
    """
    first, *others = results
    total, _ = load_gathered(first)
    for path in others:
        total.merge(load_gathered(path)[0])
    save_gathered(target, total)


def _load(path: Path, like: Gathered) -> tuple[Gathered, dict[str, Any]]:
    return load_gathered(path, device=like.text.device)


def recognizer_options(recognizer: Recognizer) -> dict[str, Any]:
    """All of a recognizer that results depend on, as JSON values."""
    learned = as_artifact(recognizer).digest() if recognizer.is_fitted else None
    return {
        "piaa": __version__,
        "classes": recognizer.classes.to_dict(),
        "others": list(recognizer.others),
        "template": recognizer.template,
        "config": recognizer.config.to_dict(),
        "encoder": recognizer.encoder.spec.to_dict(),
        "device": recognizer.encoder.device.type,
        "learned": learned,
    }
