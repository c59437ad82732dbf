"""`piaa report`: a page to look at, with every photograph, its tags and why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from piaa.cli.choosing import choose
from piaa.cli.failures import Failures, StrictOption, shown
from piaa.cli.group import examples
from piaa.cli.outputs import check_new_folder
from piaa.cli.progress import Progress
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
from piaa.cli.sources import PhotosArgument, find_photos
from piaa.errors import InputError

EXAMPLES = examples(
    "piaa report photos --model pets.piaa --out report",
    "piaa report photos --classes classes.txt --out summer --title 'Our summer'",
    "piaa report photos --model pets.piaa --out report --photo-size 640 --force",
)


def report(
    context: typer.Context,
    photos: PhotosArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder of the report.", show_default=False
        ),
    ],
    model: ModelOption = None,
    classes: ClassesOption = None,
    encoder: EncoderOption = None,
    weights: WeightsOption = None,
    frontend: FrontendOption = None,
    device: DeviceOption = None,
    tiles: TilesOption = None,
    precision: PrecisionOption = None,
    others: OthersOption = None,
    title: Annotated[
        str | None,
        typer.Option(help="Title of the page.", show_default="the name of the photos' folder"),
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
    photo_size: Annotated[
        int,
        typer.Option(
            min=64, max=8192, metavar="PIXELS", help="Longest side of the copies in the report."
        ),
    ] = 1024,
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
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier report, and nothing else.")
    ] = False,
) -> None:
    """Make a page to look at: a gallery with tags, heatmaps, a page for each class, charts.

    The report is a folder of plain files. Open its index.html in any browser; it needs no server
    and no network, and can be moved or passed on as a whole. It holds scaled-down copies of the
    photographs, without their metadata.
    """
    from piaa.report import write_report
    from piaa.report.folder import check_target, outside_reports

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
    check_target(out, force=force)
    check_new_folder(out, force=force)
    failures = Failures(strict=strict)
    files = outside_reports(find_photos(photos, failures))
    if not files:
        failures.finish()
    recognizer = choice.recognizer()
    try:
        with Progress("Reporting", total=len(files)) as progress:
            summary = write_report(
                recognizer,
                files,
                out,
                title=title,
                threshold=threshold,
                photo_size=photo_size,
                force=force,
                batch_size=batch_size,
                on_error=failures.on_error,
                on_photo=progress.advance,
            )
    except InputError:
        failures.show()
        raise
    typer.echo(f"{summary.n_photos:,} pictures, {progress.rate:.1f} images/s", err=True)
    typer.echo(shown(summary.page))
    failures.finish()
