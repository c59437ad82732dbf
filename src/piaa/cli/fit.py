"""`piaa fit`: learn what classes look like in pictures nobody has labelled."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from piaa.cli.choosing import choose
from piaa.cli.failures import Failures, StrictOption, shown
from piaa.cli.group import examples
from piaa.cli.jobs import (
    AddressOption,
    AllowOption,
    ColumnOption,
    EngineName,
    EngineOption,
    JobWatch,
    KeepFeatures,
    KeepFeaturesOption,
    LogJsonOption,
    ProcessesOption,
    RestartOption,
    UnitSizeOption,
    find_input,
    make_engine,
    resumable,
    with_features_kept,
)
from piaa.cli.outputs import ForceOption, check_new_file
from piaa.cli.recognizer_options import (
    ClassesOption,
    DeviceOption,
    EncoderOption,
    FrontendOption,
    OthersOption,
    PrecisionOption,
    TilesOption,
    WeightsOption,
)
from piaa.cli.sources import PhotosArgument

if TYPE_CHECKING:
    from piaa.config import Config

EXAMPLES = examples(
    "piaa fit photos --classes classes.txt --out pets.piaa",
    "piaa fit photos --classes classes.txt --out pets.piaa --force --json",
    "piaa fit photos --classes classes.txt --out pets.piaa --force --keep-features float16",
    "piaa fit s3://bucket/photos --allow s3 --classes classes.txt --out pets.piaa  # needs network",
)


class Preset(StrEnum):
    """How to learn; see `piaa.Config`."""

    auto = "auto"
    paper = "paper"
    voc = "voc"
    coco = "coco"
    nus = "nus"


def fit(
    context: typer.Context,
    photos: PhotosArgument,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="Where the model is saved: pets.piaa."),
    ],
    classes: ClassesOption = None,
    encoder: EncoderOption = None,
    weights: WeightsOption = None,
    frontend: FrontendOption = None,
    device: DeviceOption = None,
    tiles: TilesOption = None,
    precision: PrecisionOption = None,
    others: OthersOption = None,
    preset: Annotated[
        Preset,
        typer.Option(
            help="auto sets nothing per collection; paper follows the printed formulas, voc, coco and nus "
            "the published code."
        ),
    ] = Preset.auto,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Pictures encoded at once.",
            show_default="what suits the device",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON in place of a table.")
    ] = False,
    strict: StrictOption = False,
    force: ForceOption = False,
    keep_features: KeepFeaturesOption = KeepFeatures.off,
    processes: ProcessesOption = None,
    engine: EngineOption = EngineName.local,
    address: AddressOption = None,
    unit_size: UnitSizeOption = None,
    allow: AllowOption = None,
    column: ColumnOption = None,
    restart: RestartOption = False,
    log_json: LogJsonOption = False,
) -> None:
    """Learn what your classes look like in your pictures, without labels, and save it as a model.

    PHOTOS may also be tar shards, Parquet tables, lists of files (.txt) and URLs.

    Interrupted or killed, the same command goes on where it was, and the model is the same to the
    byte. Pictures that cannot be read are skipped and listed at the end, and the exit code is then 1.
    """
    choice = choose(
        context,
        classes=classes,
        encoder=encoder,
        weights=weights,
        frontend=frontend,
        device=device,
        tiles=tiles,
        precision=precision,
        others=others,
    )
    chosen_engine = make_engine(processes, choice, keep_features, engine=engine, address=address)
    from piaa.scale.fit import fit_units, unfinished
    from piaa.scale.job import has_job
    from piaa.scale.units import UNIT_SIZE, cut

    # A run that was killed after it had saved the model has only to be tidied up.
    check_new_file(out, force=force or has_job(unfinished(out)))
    failures = Failures(strict=strict)
    parts = find_input(photos, failures, allow=allow or (), column=column)
    if not parts:
        failures.finish()
    recognizer = choice.recognizer(config=_config(preset))
    recognizer.encoder = with_features_kept(recognizer.encoder, keep_features)
    units = cut(parts, unit_size or UNIT_SIZE)
    watch = JobWatch("Learning", units, failures, log_json=log_json)
    if not log_json:
        spec, place = recognizer.encoder.spec, recognizer.encoder.device
        found = "" if watch.tally.total is None else f", {watch.tally.total:,} pictures"
        typer.echo(f"{len(recognizer.classes):,} classes, {spec.name} on {place}{found}", err=True)
    with resumable(out, watch):
        report = fit_units(
            recognizer,
            units,
            out,
            watch=watch,
            engine=chosen_engine,
            batch_size=batch_size,
            restart=restart,
        )
    watch.summary(recognizer)
    if as_json:
        content = {
            "model": shown(out),
            "report": report.to_dict(),
            "skipped": failures.to_dicts(),
            "run": watch.tally.to_dict(),
        }
        typer.echo(json.dumps(content, ensure_ascii=False, indent=1))
    else:
        from piaa.cli.tables import report_table
        from piaa.cli.terminal import stdout_console

        stdout_console().print(report_table(report))
        if report.unnamed is not None:
            typer.echo(
                f"About {report.unnamed:.0%} of the pictures seem to show none of the classes."
            )
        typer.echo(f"Saved {shown(out)}.")
    failures.finish()


def _config(preset: Preset) -> Config:
    from piaa.config import Config

    match preset.value:
        case "auto":
            return Config.auto()
        case "paper":
            return Config.paper()
        case "voc" | "coco" | "nus" as dataset:
            return Config.reference(dataset)
