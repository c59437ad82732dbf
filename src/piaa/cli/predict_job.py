"""`piaa predict --out FILE`: in units of work, so that an interrupted run goes on where it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from piaa.cli.choosing import Choice, is_flag
from piaa.cli.failures import Failures
from piaa.cli.jobs import (
    EngineName,
    JobWatch,
    KeepFeatures,
    find_input,
    make_engine,
    resumable,
    with_features_kept,
)
from piaa.cli.outputs import check_new_file, written_whole
from piaa.cli.results import Format, make_writer
from piaa.errors import InputError

if TYPE_CHECKING:
    from piaa.recognizer import Recognizer


@dataclass(frozen=True)
class JobOptions:
    """The options that only a job in units has."""

    processes: int | None
    engine: EngineName
    address: str | None
    unit_size: int | None
    allow: Sequence[str]
    column: str | None
    restart: bool
    log_json: bool


def check_no_job_flags(context: Any) -> None:
    """Refuse flags of `JobOptions` where lines are written as they come; settings of them give way."""
    given = [name for name in JobOptions.__dataclass_fields__ if is_flag(context, name)]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise InputError(
            f"{flags} cannot be used here: only predictions that go to a file, without --heatmaps, are "
            "made in units of work. Give --out FILE."
        )


def predict_to_file(
    photos: Sequence[str],
    choice: Choice,
    out: Path,
    *,
    format: Format,
    threshold: float,
    top_k: int | None,
    batch_size: int | None,
    force: bool,
    keep_features: KeepFeatures,
    options: JobOptions,
    failures: Failures,
) -> None:
    """Predict all pictures, then write them; a run before this one need not have got to the end."""
    from piaa.scale.fit import unfinished
    from piaa.scale.job import has_job
    from piaa.scale.predict import predict_units
    from piaa.scale.units import UNIT_SIZE, cut

    engine = make_engine(
        options.processes, choice, keep_features, engine=options.engine, address=options.address
    )
    # A run that was killed after it had written the file has only to be tidied up.
    check_new_file(out, force=force or has_job(unfinished(out)))
    parts = find_input(photos, failures, allow=options.allow, column=options.column)
    if not parts:
        failures.finish()
    recognizer = choice.recognizer()
    recognizer.encoder = with_features_kept(recognizer.encoder, keep_features)
    units = cut(parts, options.unit_size or UNIT_SIZE)
    watch = JobWatch("Predicting", units, failures, log_json=options.log_json)
    if not options.log_json:
        total = watch.tally.total
        found = "" if total is None else f": {total:,} pictures"
        typer.echo(f"{describe(recognizer)}{found}", err=True)
    with (
        resumable(out, watch),
        predict_units(
            recognizer,
            units,
            unfinished(out),
            watch=watch,
            engine=engine,
            threshold=threshold,
            top_k=top_k,
            batch_size=batch_size,
            restart=options.restart,
        ) as predictions,
        written_whole(out) as file,
    ):
        writer = make_writer(
            format,
            file,
            classes=recognizer.classes,
            names=[part.name for part in parts],
            width=None,
        )
        for prediction in predictions:
            writer.add(prediction, {})
        writer.finish()
    watch.summary(recognizer)


def describe(recognizer: Recognizer) -> str:
    """What is going to predict, in a line."""
    spec = recognizer.encoder.spec
    state = (
        f"learnt from {recognizer.report.n_images:,} pictures"
        if recognizer.is_fitted
        else "zero-shot"
    )
    return (
        f"{len(recognizer.classes):,} classes, {state}, {spec.name} on {recognizer.encoder.device}"
    )
