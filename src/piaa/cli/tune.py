"""`piaa tune`: which batch size and how many threads suit this machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from piaa.cli.choosing import encoder_or_weights
from piaa.cli.encoders import JsonOption
from piaa.cli.group import examples
from piaa.cli.recognizer_options import (
    DEFAULT_ENCODER,
    EncoderOption,
    FrontendOption,
    PrecisionOption,
    WeightsOption,
)

if TYPE_CHECKING:
    from torch import Tensor

EXAMPLES = examples("piaa tune", "piaa tune --precision int8 --json")


def tune(
    context: typer.Context,
    encoder: EncoderOption = None,
    weights: WeightsOption = None,
    frontend: FrontendOption = None,
    precision: PrecisionOption = None,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Use the result from now on.")
    ] = True,
    as_json: JsonOption = False,
) -> None:
    """Find the batch size and the number of threads that suit this machine's CPU.

    Takes from seconds to a minute, with the machine otherwise idle. What is found is kept in piaa's cache and
    used by every later command with this encoder; OMP_NUM_THREADS goes before it. On GPUs there is
    nothing to tune.
    """
    import piaa
    from piaa.encoders import tuning

    encoder, weights = encoder_or_weights(context, encoder, weights)
    if encoder is None and weights is None:
        encoder = DEFAULT_ENCODER
    load = partial(
        piaa.load_encoder,
        encoder,
        weights=weights,
        frontend=frontend,
        device="cpu",
        precision=precision or "float32",  # type: ignore[arg-type]  # which it checks
    )

    def make() -> Callable[[Tensor], object]:
        loaded = load()
        loaded.default_batch_size = max(tuning.BATCHES)  # else it would cut the larger ones
        return loaded.encode_pixels

    spec = load().spec
    found = tuning.probe(make, spec.preprocessing.image_size, threads=tuning.possible_threads())
    best = tuning.choose(found)
    if keep:
        tuning.keep(spec, best)
    if as_json:
        rows = [vars(each) for each in found]
        typer.echo(json.dumps({"encoder": spec.name, "best": vars(best), "tried": rows}, indent=2))
        return
    from rich.table import Table

    from piaa.cli.terminal import stdout_console

    table = Table(title=f"{spec.name}, {spec.precision}: images/s")
    for column in ("threads", "batch", "images/s", ""):
        table.add_column(column, justify="right")
    for each in found:
        mark = "best" if each == best else ""
        table.add_row(
            str(each.threads), str(each.batch_size), f"{each.images_per_second:.1f}", mark
        )
    stdout_console().print(table)
