"""What commands that may run for days have in common: their input, their engine, what they tell."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from piaa.cli.choosing import Choice
from piaa.cli.failures import Failures, shown
from piaa.cli.progress import Progress, spell_seconds
from piaa.cli.sources import find_photos
from piaa.errors import InputError

if TYPE_CHECKING:
    from piaa.encoders.base import Encoder
    from piaa.features.shards import Storage
    from piaa.recognizer import Recognizer
    from piaa.scale.local import Engine
    from piaa.scale.sources import Part
    from piaa.scale.units import Unit
    from piaa.scale.watching import Tally

SECONDS_BETWEEN_EVENTS: Final = 5.0


class KeepFeatures(StrEnum):
    """Whether features are kept for other runs, and how."""

    off = "off"
    float16 = "float16"
    int8 = "int8"


class EngineName(StrEnum):
    """Where the work is done."""

    local = "local"
    ray = "ray"


_PANEL = "Large collections"
KeepFeaturesOption = Annotated[
    KeepFeatures,
    typer.Option(
        "--keep-features",
        help="Keep what the encoder gives, and do not encode again what was kept by any command: 200 to "
        "400 KB a picture, half of that as int8. See piaa cache.",
        rich_help_panel=_PANEL,
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        "--processes",
        min=1,
        metavar="N",
        help="Work in N processes, each with an encoder of its own; with --engine ray in N actors.",
        show_default="1; what the Ray cluster holds",
        rich_help_panel=_PANEL,
    ),
]
EngineOption = Annotated[
    EngineName,
    typer.Option(
        "--engine",
        help="Work on this machine, or on all machines of a Ray cluster; needs piaa[ray].",
        rich_help_panel=_PANEL,
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="Ray cluster to work on; auto is the one that this machine belongs to.",
        show_default="RAY_ADDRESS, else a cluster of this machine alone",
        rich_help_panel=_PANEL,
    ),
]
UnitSizeOption = Annotated[
    int | None,
    typer.Option(
        "--unit-size",
        min=1,
        metavar="N",
        help="Pictures in a unit of work; what is interrupted goes on at the unit it was in.",
        show_default="512",
        rich_help_panel=_PANEL,
    ),
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="SCHEME",
        help="Read URLs of this kind, such as s3, gs or https; may be given several times.",
        show_default="none, nothing is fetched unasked",
        rich_help_panel=_PANEL,
    ),
]
ColumnOption = Annotated[
    str | None,
    typer.Option(
        "--column",
        metavar="NAME",
        help="Column of Parquet tables that holds pictures or paths.",
        show_default="by type and name",
        rich_help_panel=_PANEL,
    ),
]
RestartOption = Annotated[
    bool,
    typer.Option(
        "--restart",
        help="Forget what an interrupted run of this output has done.",
        rich_help_panel=_PANEL,
    ),
]
LogJsonOption = Annotated[
    bool,
    typer.Option(
        "--log-json",
        help="Tell progress as JSON lines on standard error, for machines.",
        rich_help_panel=_PANEL,
    ),
]


def find_input(
    photos: Sequence[str], failures: Failures, *, allow: Sequence[str], column: str | None
) -> list[Part]:
    """What PHOTOS mean: files as for all commands, and archives, tables, lists and URLs."""
    from piaa.scale.sources import FilePart, find_parts, is_shard, is_store

    stores = [photo for photo in photos if is_store(photo)]
    plain = [photo for photo in photos if photo not in stores]
    parts: list[Part] = []
    for path in find_photos(plain, failures) if plain else ():
        if is_shard(str(path)):  # what a pattern or a list on standard input led to
            stores.append(str(path))
        else:
            parts.append(FilePart(str(path)))
    return [*parts, *(find_parts(stores, allow=allow, column=column) if stores else ())]


def with_features_kept(encoder: Encoder, keep: KeepFeatures) -> Encoder:
    """The encoder, with its features kept if they are to be."""
    if keep is KeepFeatures.off:
        return encoder
    from piaa.scale.cache import FeatureCache
    from piaa.scale.cached_encoder import CachedEncoder

    storage: Storage = "int8" if keep is KeepFeatures.int8 else "float16"
    return CachedEncoder(encoder, FeatureCache(encoder.spec, storage=storage))


def load_encoder(choice: Choice, keep: KeepFeatures) -> Encoder:
    """What was chosen, as a worker process needs it."""
    encoder = choice.recognizer().encoder if choice.model else choice.load_encoder()
    return with_features_kept(encoder, keep)


def make_engine(
    processes: int | None,
    choice: Choice,
    keep: KeepFeatures,
    *,
    engine: EngineName = EngineName.local,
    address: str | None = None,
) -> Engine:
    """This process, several, or a Ray cluster."""
    make_encoder = partial(load_encoder, choice, keep)
    if engine is EngineName.ray:
        from piaa.scale.ray_engine import RayCluster

        return RayCluster(make_encoder, address, processes, gpus=_may_use_gpus(choice))
    if address is not None:
        raise InputError("--address is that of a Ray cluster. Give --engine ray with it.")
    from piaa.scale.local import Here, Processes

    if processes is None or processes == 1:
        return Here()
    # Batch systems grant fewer cores than there are; not every system can say.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Processes(processes, make_encoder, max(1, (cores or 1) // processes))


def _may_use_gpus(choice: Choice) -> bool:
    return choice.device is None or choice.device.startswith("cuda")


class JobWatch:
    """A `Watch` that shows one line, or logs JSON; what is skipped goes to `failures`."""

    def __init__(
        self, label: str, units: Sequence[Unit], failures: Failures, *, log_json: bool
    ) -> None:
        from piaa.scale.watching import Tally

        counts = [unit.count for unit in units]
        total = None if None in counts else sum(count or 0 for count in counts)
        self.tally: Tally = Tally(total, len(units))
        self.progress = Progress(label, total=total, show=not log_json)
        self._failures, self._log_json = failures, log_json
        self._logged = time.monotonic()
        self._earlier = 0

    def advance(self, images: int) -> None:
        self.tally.advance(images)
        self._show_earlier()
        self.progress.advance(images)
        if self._log_json and time.monotonic() - self._logged > SECONDS_BETWEEN_EVENTS:
            self.log("progress", **self.tally.to_dict())

    def skip(self, name: str, reason: str) -> None:
        self.tally.skip(name, reason)
        self.progress.remark = f"{len(self.tally.skipped):,} skipped"
        self._failures.add(name, reason)
        if self._log_json:
            self.log("skip", file=shown(name), reason=reason)

    def spend(self, stage: str, seconds: float, images: int) -> None:
        self.tally.spend(stage, seconds, images)

    def finish(self, images: int, *, earlier: bool = False) -> None:
        self.tally.finish(images, earlier=earlier)
        self._earlier += images if earlier else 0
        if not earlier:
            self._show_earlier()  # of a unit without a picture nothing else tells
            if self._log_json:
                self.log("unit", **self.tally.to_dict())

    def _show_earlier(self) -> None:
        if self._earlier:
            self.progress.resume(self._earlier)
            self._earlier = 0

    def log(self, event: str, **details: object) -> None:
        """A JSON line on standard error."""
        self._logged = time.monotonic()
        typer.echo(json.dumps({"event": event, **details}), err=True)

    def summary(self, recognizer: Recognizer) -> None:
        """How it went, stage by stage."""
        tally = self.tally
        if self._log_json:
            self.log("done", device=str(recognizer.encoder.device), **tally.to_dict())
            return
        new = tally.images - tally.earlier
        stages = ", ".join(f"{name} {stage.rate:,.1f}" for name, stage in tally.stages.items())
        earlier = f" ({tally.earlier:,} by runs before)" if tally.earlier else ""
        text = f"{tally.images:,} pictures{earlier}, {spell_seconds(tally.seconds)}"
        if new:
            text += (
                f", {tally.rate:.1f} images/s on {recognizer.encoder.device} (by stage: {stages})"
            )
        known = getattr(recognizer.encoder, "n_asked", 0) - getattr(
            recognizer.encoder, "n_encoded", 0
        )
        if known:
            text += f"; {known:,} were kept from before"
        typer.echo(text, err=True)


@contextmanager
def resumable(out: Path, watch: JobWatch) -> Iterator[None]:
    """Show progress; when it is interrupted, say what is kept and how to go on."""
    from piaa.scale.fit import unfinished
    from piaa.scale.job import count_done

    try:
        with watch.progress:
            yield
    except KeyboardInterrupt:
        # Counted where they are: a unit may have been written and not yet told.
        if finished := count_done(unfinished(out)):
            done = f"{finished:,} of {watch.tally.units:,} units of work"
            typer.echo(
                f"\n{done} are done and kept in {shown(unfinished(out))}. Run the same command again to "
                "go on, or with --restart to begin anew.",
                err=True,
            )
        raise
