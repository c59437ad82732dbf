"""`piaa weights`: bring weights here, check them, make safetensors of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from piaa.cli import exits
from piaa.cli.encoders import JsonOption
from piaa.cli.group import examples
from piaa.cli.outputs import ForceOption, check_new_folder
from piaa.errors import InputError

app = typer.Typer(help="Bring weights here, check them, make safetensors of them.")


@app.command(
    "fetch",
    epilog=examples(
        "piaa weights fetch lite  # needs network",
        "piaa weights fetch ViT-B-16  # needs network",
    ),
)
def fetch(
    what: Annotated[
        str, typer.Argument(metavar="WHAT", help="A name of piaa encoders, or hf:org/repo.")
    ],
) -> None:
    """Bring weights to this machine once and verify them.

    Prints where they are. What is here already is not fetched again. Later runs need no network;
    the folders can be copied to a machine that has none.
    """
    from piaa.cli import weight_files

    for path in weight_files.fetch(what):
        typer.echo(str(path))


@app.command(
    "verify", epilog=examples("piaa weights verify", "piaa weights verify clip.safetensors")
)
def verify(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WHAT...",
            help="Names of piaa encoders, checkpoint files or directories.",
            show_default="all names",
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(help="The hash that a single file must have.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check weights on this machine; nothing is fetched.

    Weights of named encoders must be bit by bit what was published. Files of one's own must load
    as a whole model. The exit code is 1 if something is bad, or absent though it was named.
    """
    from piaa.cli import weight_files

    names = weight_files.every_name()
    asked = what or names
    paths = [item for item in asked if item not in names]
    if sha256 is not None and (len(asked) != 1 or not paths):
        raise InputError("--sha256 goes with one file; those of named encoders are known.")
    found = [
        weight_files.verify_file(Path(item), sha256) if item in paths else weight_files.verify(item)
        for item in asked
    ]
    if as_json:
        typer.echo(json.dumps([asdict(item) for item in found], indent=2))
    else:
        from piaa.cli.tables import plain_table
        from piaa.cli.terminal import stdout_console

        table = plain_table("weights", "state", "")
        for item in found:
            table.add_row(item.name, item.state, item.detail)
        stdout_console().print(table)
    if any(item.state == "bad" or (what and item.state == "absent") for item in found):
        raise typer.Exit(exits.SOME_FAILED)


@app.command("convert", epilog=examples("piaa weights convert clip.safetensors --out clip"))
def convert(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A checkpoint file, a directory or hf:org/repo.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write to.")],
    trust_torchscript: Annotated[
        bool,
        typer.Option(
            "--trust-torchscript",
            help="Read a TorchScript archive, which carries code, of unknown origin.",
        ),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Make one safetensors file of a checkpoint: of shards, of .pt and .bin files, of archives.

    Tensors keep their names and types, and configs beside the checkpoint are copied, so that
    --weights FOLDER gives the very same encoder. The result holds no code and opens faster.
    """
    check_new_folder(out, force=force)
    from safetensors.torch import save

    from piaa.atomic import write_whole
    from piaa.encoders import checkpoints
    from piaa.encoders.layouts import convert as recognize

    checkpoint = checkpoints.read(source, trust_torchscript=trust_torchscript)
    layout = recognize(checkpoint.tensors).layout  # refuses what is no whole model
    name = "model.safetensors" if layout == "transformers" else "open_clip_model.safetensors"
    tensors = {
        key: tensor.detach().clone().contiguous() for key, tensor in checkpoint.tensors.items()
    }
    metadata = {"format": "pt", "source_sha256": checkpoint.sha256}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for config, content in checkpoint.configs.items():
            write_whole(out / config, json.dumps(content, indent=2).encode())
        write_whole(out / name, save(tensors, metadata=metadata))
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror or error}.") from error
    typer.echo(str(out / name))
