"""The options that say which recognizer, for all commands that need one; `piaa.cli.choosing` reads them."""

from __future__ import annotations

from typing import Annotated, Final

import typer

DEFAULT_ENCODER: Final = "lite"
"""Embedded: quick on a CPU, and its weights come from the package index."""


def _encoder_names(incomplete: str) -> list[str]:
    from piaa.encoders.registry import list_encoders

    return [name for name in list_encoders() if name.lower().startswith(incomplete.lower())]


def _frontend_names(incomplete: str) -> list[str]:
    from piaa.encoders.frontends import list_frontends

    return [name for name in list_frontends() if name.startswith(incomplete)]


def _precision_names(incomplete: str) -> list[str]:
    from piaa.encoders.precision import PRECISIONS

    return [name for name in PRECISIONS if name.startswith(incomplete)]


_WHO = "Which recognizer"
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="FILE",
        help="A model that piaa fit has saved, or one that piaa knows by name.",
        show_default=False,
        rich_help_panel=_WHO,
    ),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(
        "--classes",
        "-c",
        metavar="FILE",
        help="A text file with one class a line ('sofa: couch, settee' adds synonyms), or a list that "
        "piaa knows by name.",
        show_default=False,
        rich_help_panel=_WHO,
    ),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        "-e",
        metavar="NAME",
        help="See piaa encoders. Its weights are fetched if need be.",
        show_default=f"{DEFAULT_ENCODER}, unless --weights",
        autocompletion=_encoder_names,
        rich_help_panel=_WHO,
    ),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(
        "--weights",
        "-w",
        metavar="WHERE",
        help="A checkpoint file, a directory or hf:org/repo. A path never touches the network.",
        show_default=False,
        rich_help_panel=_WHO,
    ),
]
FrontendOption = Annotated[
    str | None,
    typer.Option(
        "--frontend",
        metavar="NAME",
        help="How patch features are read, see piaa encoders.",
        show_default="what suits the encoder",
        autocompletion=_frontend_names,
        rich_help_panel=_WHO,
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Such as cpu or cuda.",
        show_default="the best",
        rich_help_panel=_WHO,
    ),
]
TilesOption = Annotated[
    int | None,
    typer.Option(
        "--tiles",
        min=1,
        metavar="N",
        help="Look at N x N windows of each picture too, for small things: N * N + 1 times the work.",
        show_default=False,
        rich_help_panel=_WHO,
    ),
]
OthersOption = Annotated[
    str | None,
    typer.Option(
        "--others",
        metavar="FILE",
        help="Names of other things that pictures may show, beside a short list of classes: a text file, or "
        "none.",
        show_default="some of piaa's own, up to 20 names in all",
        rich_help_panel=_WHO,
    ),
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="NAME",
        help="Of the encoder: float32; int8 on CPUs, twice as fast, not exactly the same; bfloat16 or "
        "float16 on GPUs.",
        show_default="float32",
        autocompletion=_precision_names,
        rich_help_panel=_WHO,
    ),
]
