"""`piaa evaluate`: how good is it, on labelled images?"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from piaa.cli.choosing import Choice, choose
from piaa.cli.evaluation_options import (
    DatasetOption,
    LimitOption,
    PartialOption,
    RoundsOption,
    watching,
)
from piaa.cli.group import examples
from piaa.cli.outputs import ForceOption, check_new_file, written_whole
from piaa.cli.progress import Progress, spell_seconds
from piaa.cli.recognizer_options import (
    DeviceOption,
    EncoderOption,
    FrontendOption,
    ModelOption,
    PrecisionOption,
    TilesOption,
    WeightsOption,
)
from piaa.errors import InputError

if TYPE_CHECKING:
    from piaa.baselines import Method
    from piaa.datasets import Dataset
    from piaa.encoders.base import Encoder
    from piaa.evaluation.encoded import FeatureSets
    from piaa.evaluation.evaluating import Evaluation
    from piaa.recognizer import Recognizer

EXAMPLES = examples(
    "piaa evaluate --dataset folder --root labelled --fit  # needs network",
    "piaa evaluate --dataset folder --root labelled --model pets.piaa --json  # needs network",
    "piaa evaluate --dataset voc2007 --root VOCdevkit --fit --method piaa --method cls  # needs network",
    "piaa evaluate --dataset voc2007 --root VOCdevkit --fit --seeds 5  # needs network",
)


def evaluate(
    context: typer.Context,
    dataset: DatasetOption,
    root: Annotated[
        Path, typer.Option("--root", metavar="FOLDER", help="Where it is.", show_default=False)
    ],
    model: ModelOption = None,
    fit: Annotated[
        bool,
        typer.Option("--fit", help="Learn from the data set's images to learn from, unlabelled."),
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="piaa, or a rival: cls, patch, tagclip, sparc. Several are compared with the first, "
            "image by image.",
            show_default="piaa",
        ),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(help="Settings of piaa: auto, reference (the published code's) or paper."),
    ] = "auto",
    encoder: EncoderOption = None,
    weights: WeightsOption = None,
    frontend: FrontendOption = None,
    device: DeviceOption = None,
    tiles: TilesOption = None,
    precision: PrecisionOption = None,
    allow_partial: PartialOption = False,
    difficult: Annotated[
        str | None,
        typer.Option(
            help="VOC's difficult objects: negative, positive or ignore.",
            show_default="negative, as in the paper",
        ),
    ] = None,
    limit: LimitOption = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Also fit on random subsets of the images, this many of each size: a learning curve.",
            show_default=False,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            help="Sizes of the subsets, such as 20,100,500.", show_default="20, 50, 100 ..."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Picture of the learning curve.", show_default=False),
    ] = None,
    rounds: RoundsOption = 1000,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be computed and how long it takes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where results go as JSON, with all they depend on.",
            show_default="evaluation-DATASET.json; with --json nowhere",
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Measure on a labelled data set.

    mAP with a bootstrap interval, AP of each class, F1 at the stored thresholds, small and large
    objects, images/s. Labels are never learnt from. Without --fit and --model it is zero-shot; --tiles adds a
    line for what windows gain and cost.
    """
    from piaa.cli.terminal import stdout_console
    from piaa.datasets import open_dataset
    from piaa.evaluation import evaluating, printing
    from piaa.evaluation.encoded import FeatureSets
    from piaa.evaluation.plots import check_matplotlib
    from piaa.evaluation.record import command_line

    names = method or ["piaa"]
    _check(model, fit, names, preset, tiles, seeds, sizes, plot)
    if out is None and not as_json:
        out = Path(f"evaluation-{dataset}.json")
    if out is not None and not dry_run:
        check_new_file(out, force=force)
    if plot is not None:
        check_matplotlib()
        check_new_file(plot, force=force)
    found = open_dataset(dataset, root, partial=allow_partial, difficult=difficult)  # type: ignore[arg-type]
    found = found.limited(limit)
    for note in found.notes:
        typer.echo(f"piaa: note: {note}", err=True)
    choice = choose(
        context,
        model=model,
        classes=found.classes,
        encoder=encoder,
        weights=weights,
        frontend=frontend,
        device=device,
        precision=precision,
    )
    loaded, recognizer = _load(choice)
    if recognizer is not None:
        found = found.in_order_of(recognizer.classes.names)
    config = evaluating.find_config(preset, found)
    make = partial(
        evaluating.make_methods, encoder=loaded, dataset=found, config=config, model=recognizer
    )
    sets = FeatureSets()
    console = stdout_console()
    if dry_run:
        _dry_run(found, loaded, make(names), sets, fit=fit)
        return
    result = evaluating.evaluate(
        found,
        loaded,
        make(names),
        sets,
        fit=fit,
        tiles=tiles,
        config=config,
        rounds=rounds,
        watch=watching,
    )
    if seeds is not None:
        result = _with_curve(result, make, sets, seeds, sizes, plot)
    content = json.dumps(result.to_dict(command_line()), indent=2)
    if out is not None:
        with written_whole(out) as file:
            file.write(content + "\n")
    if as_json:
        typer.echo(content)
        return
    console.print(printing.class_table(result))
    if result.curve is not None:
        console.print(printing.curve_table(result.curve))
    console.print(printing.summary_table(result))
    typer.echo(f"Written to {out}.", err=True)


def _check(
    model: str | None,
    fit: bool,
    names: list[str],
    preset: str,
    tiles: int | None,
    seeds: int | None,
    sizes: str | None,
    plot: Path | None,
) -> None:
    """Refuse options that would contradict each other or do nothing."""
    if model is not None:
        given = {"--fit": fit, "--tiles": tiles, "--seeds": seeds, "--preset": preset != "auto"}
        if wrong := [flag for flag, value in given.items() if value]:
            raise InputError(
                f"--model cannot go with {', '.join(wrong)}: a saved model has its own settings, and has "
                "learnt already."
            )
    if (tiles is not None or seeds is not None or preset != "auto") and "piaa" not in names:
        raise InputError(
            "--tiles, --seeds and --preset are for the method piaa, which is not asked for."
        )
    if seeds is None and (sizes or plot):
        raise InputError("--sizes and --plot belong to a learning curve: give --seeds N, too.")


def _load(choice: Choice) -> tuple[Encoder, Recognizer | None]:
    if choice.model is None:
        return choice.load_encoder(), None
    recognizer = choice.recognizer()
    return recognizer.encoder, recognizer


def _dry_run(
    dataset: Dataset, encoder: Encoder, methods: list[Method], sets: FeatureSets, *, fit: bool
) -> None:
    from piaa.cli.terminal import stdout_console
    from piaa.evaluation import planning, printing

    steps = planning.plan(dataset, encoder, methods, sets, fit=fit)
    stdout_console().print(printing.plan_table(steps, spell_seconds))


def _with_curve(
    result: Evaluation,
    make: Callable[[list[str]], list[Method]],
    sets: FeatureSets,
    seeds: int,
    sizes: str | None,
    plot: Path | None,
) -> Evaluation:
    from piaa.evaluation.curves import default_sizes, learning_curve
    from piaa.evaluation.plots import plot_curve

    dataset = result.dataset
    learn = sets.get(result.encoder, dataset.learn.paths)
    test = sets.get(result.encoder, dataset.test.paths)
    try:
        chosen = [int(part) for part in sizes.split(",")] if sizes else default_sizes(len(learn))
    except ValueError:
        raise InputError(f"--sizes must be numbers such as 20,100,500, not {sizes!r}.") from None
    fits = sum(1 if size == len(learn) else seeds for size in chosen)
    with Progress("Learning curve", total=fits, unit="fits") as progress:
        curve = learning_curve(
            lambda: make(["piaa"])[0],
            dataset,
            learn,
            test,
            seeds=seeds,
            sizes=chosen,
            advance=progress.advance,
        )
    if plot is not None:
        plot_curve(curve, plot)
    return replace(result, curve=curve)
