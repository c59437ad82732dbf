"""`piaa smoke`: does everything work on this machine, and how fast?"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from piaa.cli.group import examples

if TYPE_CHECKING:
    from PIL.Image import Image

    from piaa.encoders.clip import ClipEncoder
    from piaa.encoders.lite import LiteEncoder

EXAMPLES = examples(
    "piaa smoke photos/01.jpg photos/02.jpg --weights clip.safetensors",
    "piaa smoke --encoder ViT-B-16  # needs network",
)


def smoke(
    photos: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PHOTOS...", help="Pictures to encode.", show_default="some made up"
        ),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="A registered encoder: its weights may be downloaded.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="A file, a directory or hf:org/repo[@revision].")
    ] = None,
    frontend: Annotated[
        str | None,
        typer.Option(help="How patch features are read. Default: what suits the encoder."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Such as cpu or cuda. Default: the best.")
    ] = None,
) -> None:
    """Run an encoder end to end: pictures and words to vectors.

    Without --encoder or --weights the model has the size of ViT-B/16 and random weights: nothing is
    downloaded, and the vectors mean nothing.
    """
    import torch

    import piaa
    from piaa.encoders.frontends import find_frontend

    if frontend is not None:
        find_frontend(frontend)
    random = encoder is None and weights is None
    if random:
        typer.echo(
            "Making random weights of the size of ViT-B/16 (nothing is downloaded) ...", err=True
        )
        model = _random_encoder(frontend or "sc-clip", device)
    else:
        model = piaa.load_encoder(encoder, weights=weights, frontend=frontend, device=device)
    images = list(photos) if photos else [picture(seed) for seed in range(16)]
    typer.echo(f"Encoding {len(images)} pictures ...", err=True)
    model.encode_images(images[:1])  # warm-up
    start = time.perf_counter()
    features = model.encode_images(images)
    seconds = time.perf_counter() - start
    text = model.encode_text(["a photo of a cat", "a photo of a dog"])
    threads = f", {torch.get_num_threads()} threads" if model.device.type == "cpu" else ""
    for name, value in (
        ("piaa", f"{piaa.__version__}, torch {torch.__version__}"),
        ("device", f"{model.device}{threads}, {model.spec.precision}"),
        ("encoder", model),
        ("front-end", model.spec.frontend),
        ("pictures", f"{len(images)}, brought to {_by(model.spec.preprocessing.image_size)} px"),
        ("cls", tuple(features.cls.shape)),
        ("patches", f"{tuple(features.patches.shape)}, grid {_by(features.grid)}"),
        ("text", tuple(text.shape)),
        ("speed", f"{len(images) / seconds:.1f} images/s, decoding included"),
    ):
        typer.echo(f"{name:10} {value}")
    if random:
        typer.echo("The weights were random: shapes and speed are real, the vectors mean nothing.")


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _random_encoder(frontend: str, device: str | None) -> ClipEncoder | LiteEncoder:
    from safetensors.torch import save_file

    import piaa
    from piaa.encoders.synthetic import synthetic_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "random-ViT-B-16.safetensors"
        save_file(synthetic_checkpoint(), path)
        return piaa.load_encoder(weights=path, frontend=frontend, device=device)


def picture(seed: int) -> Image:
    """A smooth color pattern, larger than the encoder's input, so that it is resized and cropped."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC)
