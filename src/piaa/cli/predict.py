"""`piaa predict`: which classes are in each picture."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from piaa.cli.choosing import choose
from piaa.cli.failures import Failures, StrictOption
from piaa.cli.group import examples
from piaa.cli.jobs import (
    AddressOption,
    AllowOption,
    ColumnOption,
    EngineName,
    EngineOption,
    KeepFeatures,
    KeepFeaturesOption,
    LogJsonOption,
    ProcessesOption,
    RestartOption,
    UnitSizeOption,
    with_features_kept,
)
from piaa.cli.outputs import ForceOption, check_new_file, check_new_folder, written_whole
from piaa.cli.parquet_results import check_parquet
from piaa.cli.predict_job import JobOptions, check_no_job_flags, describe, predict_to_file
from piaa.cli.progress import Progress, spell_seconds
from piaa.cli.recognizer_options import (
    ClassesOption,
    DeviceOption,
    EncoderOption,
    FrontendOption,
    ModelOption,
    OthersOption,
    PrecisionOption,
    TilesOption,
    WeightsOption,
)
from piaa.cli.results import Format, choose_format, make_writer
from piaa.cli.sources import PhotosArgument, find_photos

if TYPE_CHECKING:
    from piaa.errors import ImageError
    from piaa.images import ImageSource

EXAMPLES = examples(
    "piaa predict photos --model pets.piaa",
    "piaa predict photos --classes classes.txt --top-k 3",
    "piaa predict 'photos/*.jpg' --model pets.piaa --out tags.csv",
    "piaa predict photos --model pets.piaa --out tags.parquet",
    "piaa predict s3://bucket/photos --allow s3 --model pets.piaa --out tags.jsonl  # needs network",
    "piaa predict photos --model pets.piaa --threshold 0.7 --heatmaps heatmaps",
    "find photos -name '*.jpg' | piaa predict - --model pets.piaa --json | head -n 2",
)


def predict(
    context: typer.Context,
    photos: PhotosArgument,
    model: ModelOption = None,
    classes: ClassesOption = None,
    encoder: EncoderOption = None,
    weights: WeightsOption = None,
    frontend: FrontendOption = None,
    device: DeviceOption = None,
    tiles: TilesOption = None,
    precision: PrecisionOption = None,
    others: OthersOption = None,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            "-f",
            help="jsonl has one object a picture, csv one row a tag; parquet needs piaa[scale].",
            show_default="by the suffix of --out, else table",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write to this file; - is standard output.",
            show_default="-",
        ),
    ] = None,
    heatmaps: Annotated[
        Path | None,
        typer.Option(
            "--heatmaps",
            metavar="FOLDER",
            help="Write a picture for each tag, with where it was seen, to this folder.",
            show_default=False,
        ),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SCORE",
            help="Least score of a tag; 0.5 is each class's own threshold.",
        ),
    ] = 0.5,
    top_k: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Most tags a picture.", show_default=False),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Pictures encoded at once.",
            show_default="what suits the device",
        ),
    ] = None,
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
    """Tell which classes are in each picture.

    With --model as piaa fit has learnt them; with --classes from their words alone (zero-shot).

    On standard output every picture gets a line as soon as its batch is ready. With --out, PHOTOS may
    also be tar shards, Parquet tables, lists of files (.txt) and URLs; interrupted or killed, the same
    command goes on where it was, and the file is the same to the byte.

    Pictures that cannot be read are skipped and listed at the end, and the exit code is then 1.
    """
    out = None if out == Path("-") else out
    chosen_format = choose_format(format, as_json, out)
    if chosen_format is Format.parquet:
        check_parquet(out)
    choice = choose(
        context,
        model=model,
        classes=classes,
        encoder=encoder,
        weights=weights,
        frontend=frontend,
        device=device,
        tiles=tiles,
        precision=precision,
        others=others,
    )
    failures = Failures(strict=strict)
    if out is not None and heatmaps is None:
        predict_to_file(
            photos,
            choice,
            out,
            format=chosen_format,
            threshold=threshold,
            top_k=top_k,
            batch_size=batch_size,
            force=force,
            keep_features=keep_features,
            options=JobOptions(
                processes, engine, address, unit_size, allow or (), column, restart, log_json
            ),
            failures=failures,
        )
        failures.finish()
        return
    check_no_job_flags(context)
    if out is not None:
        check_new_file(out, force=force)
    if heatmaps is not None:
        check_new_folder(heatmaps, force=force)
    files = find_photos(photos, failures)
    if not files:
        failures.finish()
    recognizer = choice.recognizer()
    recognizer.encoder = with_features_kept(recognizer.encoder, keep_features)
    typer.echo(f"{describe(recognizer)}: {len(files):,} pictures", err=True)

    from piaa.cli.heatmap_files import HeatmapFiles

    maps = None if heatmaps is None else HeatmapFiles(heatmaps, files, recognizer.classes)
    to_terminal = out is None and sys.stdout.isatty()

    def skip(index: int, source: ImageSource, error: ImageError) -> None:
        failures.on_error(index, source, error)
        progress.skip()

    stream = recognizer.stream(
        files,
        threshold=threshold,
        top_k=top_k,
        heatmaps=maps is not None,
        batch_size=batch_size,
        on_error=skip,
    )
    # On a terminal the lines themselves show progress, and a bar would be torn apart by them.
    with (
        _output(out) as file,
        Progress("Predicting", total=len(files), show=not to_terminal) as progress,
    ):
        writer = make_writer(
            chosen_format,
            file,
            classes=recognizer.classes,
            names=[str(path) for path in files],
            width=shutil.get_terminal_size().columns if to_terminal else None,
        )
        for prediction in stream:
            writer.add(prediction, {} if maps is None else maps.write(prediction))
            progress.advance()
        writer.finish()
    took = spell_seconds(progress.seconds)
    typer.echo(f"{progress.done:,} pictures in {took}, {progress.rate:.1f} images/s", err=True)
    failures.finish()


@contextmanager
def _output(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
    else:
        with written_whole(out) as file:
            yield file
