"""`piaa serve`: a recognizer as a service, with a page."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from typing import Annotated

import typer

from piaa.cli.choosing import choose
from piaa.cli.group import examples
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
from piaa.errors import InputError

CPU_BATCH, GPU_BATCH = 4, 32
EXAMPLES = examples(
    "piaa serve --model pets.piaa  # runs until stopped",
    "piaa serve --classes classes.txt --port 8080  # runs until stopped",
    "PIAA_TOKEN=use-a-long-secret-here piaa serve -m pets.piaa --host 0.0.0.0  # runs until stopped",
)


def serve(
    context: typer.Context,
    model: ModelOption = None,
    classes: ClassesOption = None,
    encoder: EncoderOption = None,
    weights: WeightsOption = None,
    frontend: FrontendOption = None,
    device: DeviceOption = None,
    tiles: TilesOption = None,
    precision: PrecisionOption = None,
    others: OthersOption = None,
    host: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Address to listen at; beyond this machine needs --token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 takes a free one.")
    ] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="SECRET",
            help="Requests must carry it. PIAA_TOKEN keeps it out of the list of processes.",
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Most pictures encoded at once.",
            show_default=f"{CPU_BATCH} on a CPU, else {GPU_BATCH}",
        ),
    ] = None,
    queue: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Pictures that may wait; further ones are told to come back."
        ),
    ] = 128,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="For a request, once it has arrived.")
    ] = 30.0,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Log no requests, only what goes wrong.")
    ] = False,
) -> None:
    """Serve a recognizer: an HTTP API and a page to drop photographs on.

    It listens on this machine only, unless there is a --token. Ctrl-C or SIGTERM stops it once
    every request that it has accepted is answered.
    """
    # Read when torch is first imported. By default its idle threads spin, on the cores that decode.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
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
    if find_spec("resource") is None:
        raise InputError(
            "The service decodes pictures in processes with limits, which this system does not have. "
            "Run it on Linux or macOS."
        )
    if missing := [
        name for name in ("fastapi", "uvicorn", "python_multipart") if not find_spec(name)
    ]:
        raise InputError(
            f"The service needs {', '.join(missing)}. Install it with: pip install 'piaa[serve]'."
        )
    from piaa.serve.limits import Limits
    from piaa.serve.running import address, listen
    from piaa.serve.running import serve as run
    from piaa.serve.security import check_binding

    check_binding(host, token)
    logging.basicConfig(
        level=logging.WARNING if quiet else logging.INFO, format="%(asctime)s %(message)s"
    )
    with listen(host, port) as listening:
        from piaa.serve.app import create_app

        recognizer = choice.recognizer()
        on_cpu = recognizer.encoder.device.type == "cpu"
        limits = Limits(
            batch=batch_size or (CPU_BATCH if on_cpu else GPU_BATCH),
            encoders=Limits.encoders if on_cpu else 1,
            queue=queue,
            images=min(queue, Limits.images),
            deadline_seconds=deadline,
        )
        app = create_app(recognizer, limits=limits, token=token)
        typer.echo(f"{recognizer!r} at {address(listening)}")
        run(app, listening, limits)
