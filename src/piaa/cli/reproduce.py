"""`piaa reproduce`: the paper's tables and figures, next to ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from piaa.cli.choosing import Choice
from piaa.cli.evaluation_options import (
    LimitOption,
    PartialOption,
    RoundsOption,
)
from piaa.cli.group import examples
from piaa.cli.outputs import written_whole
from piaa.cli.recognizer_options import DeviceOption, ModelOption
from piaa.errors import InputError, PiaaError

if TYPE_CHECKING:
    from piaa.datasets import Dataset
    from piaa.encoders.base import Encoder
    from piaa.evaluation.tables import Filled

EXAMPLES = examples(
    "piaa reproduce main --root voc2007=VOCdevkit --root coco2014=coco  # needs network",
    "piaa reproduce ablation --root VOCdevkit --with-encoder lite --partial  # needs network",
    "piaa reproduce figures --image dog.jpg --model pets.piaa  # needs network",
)
FIGURES = "figures"
PLOTTED = ("main", "bank-size", "alpha")
"""Tables that the paper shows as figures."""


def reproduce(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="main, ablation, frontends, backbones, bank-size, alpha, timing, scale, all of them "
            "(all), or figures.",
            show_default=False,
        ),
    ],
    root: Annotated[
        list[str] | None,
        typer.Option(
            "--root",
            metavar="[NAME=]FOLDER",
            help="Where a data set is: voc2007=FOLDER, or a folder that holds several.",
            show_default=False,
        ),
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option(
            "--weights-of",
            metavar="NAME=WHERE",
            help="Weights of an encoder, such as ViT-B-16=clip.safetensors.",
            show_default="from the hub or its cache",
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            "--with-encoder",
            metavar="NAME",
            help="Run all cells with this encoder in place of the paper's.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where tables and plots go.")
    ] = Path("reproduced"),
    allow_partial: PartialOption = False,
    limit: LimitOption = None,
    rounds: RoundsOption = 1000,
    image: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="For figures: a photograph.", show_default=False),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="NAME",
            help="For figures: a class to show.",
            show_default="the tags of each photograph",
        ),
    ] = None,
    model: ModelOption = None,
) -> None:
    """Run every cell of the paper's tables that there are weights and data for.

    Prints paper, ours and the difference, says what could not be run and why, and writes CSV, Markdown and
    plots. Finished cells are kept: run the same command again to go on where it stopped. "figures" draws
    the paper's figures: of photographs, with --image and --model; of methods, K and alpha, with --root.
    """
    from piaa.cli.terminal import stdout_console
    from piaa.evaluation.cells import list_tables, table_cells
    from piaa.evaluation.encoded import FeatureSets
    from piaa.evaluation.jobs import ResultBook, run_jobs
    from piaa.evaluation.tables import fill, gaps, to_csv, to_markdown, to_rich

    chosen = list_tables() if tables == ["all"] else [t for t in tables if t != FIGURES]
    if FIGURES in tables:
        _check_figures(image, model, root)
        chosen = list(dict.fromkeys([*chosen, *(PLOTTED if root else ())]))
    elif image or name or model:
        raise InputError("--image, --class and --model are for figures: piaa reproduce figures ...")
    cells = {table: table_cells(table, encoder=encoder) for table in chosen}
    book = ResultBook(out / "results")
    if image and model is not None:
        _draw_figures(image, name, model, device, out)
    if not chosen:
        return
    files = _pairs(weights or [], "--weights-of", encoder)

    def load(encoder_name: str, frontend: str | None) -> Encoder:
        where = files.get(encoder_name)
        typer.echo(f"Loading {encoder_name}, {frontend or 'no front-end'} ...", err=True)
        return Choice(None, None, encoder_name, where, frontend, device, None).load_encoder()

    jobs = [cell.job for some in cells.values() for cell in some if cell.job is not None]
    needed = list(dict.fromkeys(job.dataset for job in jobs))
    datasets = _datasets(needed, root or [], partial=allow_partial, limit=limit)
    outcome = run_jobs(
        jobs,
        datasets,
        load,
        FeatureSets(),
        book,
        rounds=rounds,
        say=lambda text: typer.echo(text, err=True),
    )
    console = stdout_console()
    for table, some in cells.items():
        filled = fill(some, outcome)
        title = f"{table}, with {encoder} in place of the paper's encoder" if encoder else table
        notes = sorted(
            {note for d in datasets.values() if not isinstance(d, str) for note in d.notes}
        )
        for suffix, text in ((".csv", to_csv(filled)), (".md", to_markdown(filled))):
            with written_whole(out / f"{table}{suffix}") as file:
                file.write(text if suffix == ".csv" else _page(title, text, notes))
        console.print(to_rich(filled, title))
        for why, what in gaps(filled).items():
            console.print(f"not run: {what}: {why}", soft_wrap=True, markup=False)
        _plot(table, filled, out, title)
    typer.echo(f"Written to {out}.", err=True)


def _page(title: str, table: str, notes: list[str]) -> str:
    lines = [f"# {title}", "", table]
    if notes:
        lines += ["", "Not the published data sets:", *(f"- {note}" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _plot(table: str, filled: list[Filled], out: Path, title: str) -> None:
    """A picture beside the table, where matplotlib is installed and there is something to show."""
    from importlib.util import find_spec

    from piaa.evaluation.plots import plot_filled

    if find_spec("matplotlib") is None:
        typer.echo("piaa: note: no plots, which need pip install 'piaa[report]'", err=True)
    elif any(one.ours is not None or one.cell.paper is not None for one in filled):
        plot_filled(table, filled, out / f"{table}.svg", title=title)


def _check_figures(image: list[Path] | None, model: str | None, root: list[str] | None) -> None:
    if bool(image) != (model is not None):
        raise InputError("Photographs are drawn with a model: give both --image and --model.")
    if not image and not root:
        raise InputError(
            "Figures need photographs with a model (--image FILE --model FILE), or data for the plots of "
            "methods, K and alpha (--root)."
        )


def _draw_figures(
    photos: list[Path],
    names: list[str] | None,
    model: str,
    device: str | None,
    out: Path,
) -> None:
    from piaa.evaluation import figures
    from piaa.evaluation.plots import check_matplotlib

    check_matplotlib()
    recognizer = Choice(model, None, None, None, None, device, None).recognizer()
    for name, draw in (
        ("attention", figures.draw_attention),
        ("before-after", figures.draw_before_after),
        ("retained", figures.draw_retained),
    ):
        path = out / f"{name}.png"
        draw(recognizer, photos, names, path)
        typer.echo(f"Written {path}.", err=True)


def _datasets(
    needed: list[str], roots: list[str], *, partial: bool, limit: int | None
) -> dict[str, Dataset | str]:
    """Each data set, or why it is not there."""
    from piaa.datasets import open_dataset

    named = _pairs([root for root in roots if "=" in root], "--root", None)
    common = [Path(root) for root in roots if "=" not in root]
    for folder in (*common, *map(Path, named.values())):
        if not folder.is_dir():
            raise InputError(f"The root {str(folder)!r} is not a folder.")
    found: dict[str, Dataset | str] = {}
    for name in needed:
        places = [Path(named[name])] if name in named else _places(name, common)
        found[name] = f"no data: give --root {name}=FOLDER"
        for place in places:
            try:
                found[name] = open_dataset(name, place, partial=partial).limited(limit)
                break
            except PiaaError as error:
                found[name] = f"no data: {error}"
    return found


def _places(name: str, folders: list[Path]) -> list[Path]:
    return [place for folder in folders for place in (folder / name, folder) if place.is_dir()]


def _pairs(values: list[str], flag: str, default: str | None) -> dict[str, str]:
    """NAME=VALUE options as a mapping; a bare value belongs to `default`."""
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals and default is not None:
            name, rest = default, value
        elif not equals or not name or not rest:
            raise InputError(f"{flag} takes NAME=VALUE, not {value!r}.")
        found[name] = rest
    return found
