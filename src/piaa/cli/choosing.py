"""Which recognizer: a saved --model, or --classes and an encoder. Checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from piaa.cli.recognizer_options import DEFAULT_ENCODER
from piaa.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from piaa.classes.class_list import ClassList
    from piaa.classes.others import Others
    from piaa.config import Config
    from piaa.encoders.base import Encoder
    from piaa.recognizer import Recognizer

_OF_A_NEW_ONE = ("classes", "encoder", "frontend", "tiles", "precision", "others")


@dataclass(frozen=True)
class Choice:
    """What was asked for, sound as far as that can be told without loading anything.

    Made by `choose`. `recognizer()` loads it.
    """

    model: str | None
    classes: ClassList | None
    encoder: str | None
    weights: str | None
    frontend: str | None
    device: str | None
    tiles: int | None
    precision: str | None = None
    others: Others = "auto"

    def load_encoder(self) -> Encoder:
        """The encoder alone, with its tiles; not for a saved model, which knows its own."""
        import piaa
        from piaa.encoders import tuning
        from piaa.encoders.tiled import TiledEncoder
        from piaa.images.tiles import Tiles

        tuning.use_kept_threads()
        encoder = piaa.load_encoder(
            self.encoder,
            weights=self.weights,
            frontend=self.frontend,
            device=self.device,
            precision=self.precision or "float32",  # type: ignore[arg-type]  # which it checks
        )
        if self.tiles is None:
            return encoder
        return TiledEncoder(encoder, Tiles(rows=self.tiles, columns=self.tiles))

    def recognizer(
        self, *, config: Config | None = None, template: str | None = None
    ) -> Recognizer:
        """The saved model, or a zero-shot recognizer of the classes (made with `config`, `template`)."""
        from piaa.recognizer import Recognizer

        if self.model is not None:
            return _load_model(self.model, self.weights, self.device)
        if self.classes is None:
            raise InputError("Give --classes.")
        return Recognizer(
            self.load_encoder(),
            self.classes,
            config=config,
            template=template,
            others=self.others,
        )


def choose(
    context: Any,
    *,
    model: str | None = None,
    classes: str | Sequence[str] | None = None,
    encoder: str | None = None,
    weights: str | None = None,
    frontend: str | None = None,
    device: str | None = None,
    tiles: int | None = None,
    precision: str | None = None,
    others: str | None = None,
) -> Choice:
    """Check the options, as far as that is possible without loading an encoder.

    Args:
        context: the command's `typer.Context`, which knows which of them were flags. Flags that
            contradict each other are errors; against a flag, what the environment or piaa.toml
            says gives way, and between themselves a model goes before classes and an encoder.

    Raises:
        InputError: neither a model nor classes (in a command that can take either), flags that
            contradict each other, an unknown name, a class list or a model that is not there.
    """
    takes_model = "model" in context.params
    flags = {name for name in ("model", "weights", *_OF_A_NEW_ONE) if is_flag(context, name)}
    if model is not None and flags & {"classes"} and "model" not in flags:
        model = None
    if model is not None:
        wrong = flags & set(_OF_A_NEW_ONE)
        if wrong and "model" in flags:
            raise InputError(
                f"--model cannot go with {_flags(wrong)}: a saved model has its own classes, encoder "
                "and settings. (--weights may say where its encoder's weights are now.)"
            )
        if wrong:  # a flag against a model of the settings
            model = None
    if model is not None:
        return _chosen_model(model, weights if "weights" in flags else None, device)
    if classes is None:
        either = (
            "--model FILE (made by piaa fit) or --classes FILE" if takes_model else "--classes FILE"
        )
        raise InputError(f"Give {either}.")
    encoder, weights = encoder_or_weights(context, encoder, weights)
    if encoder is None and weights is None:
        encoder = DEFAULT_ENCODER
    chosen = _chosen_classes(classes, encoder, weights, frontend, device, tiles, precision)
    return replace(chosen, others=_chosen_others(others))


def is_flag(context: Any, name: str) -> bool:
    """Whether a parameter was given as a flag, not by the environment or piaa.toml."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def encoder_or_weights(
    context: Any, encoder: str | None, weights: str | None
) -> tuple[str | None, str | None]:
    """Both, unless one is a flag: then what the settings say of the other gives way."""
    flags = is_flag(context, "encoder"), is_flag(context, "weights")
    if flags == (True, False):
        return encoder, None
    if flags == (False, True):
        return None, weights
    return encoder, weights


def _flags(names: set[str]) -> str:
    return ", ".join(f"--{name}" for name in sorted(names))


def _chosen_model(model: str, weights: str | None, device: str | None) -> Choice:
    from piaa.shipped import list_models, model_file

    if model_file(model) is None and not Path(model).is_file():
        state = "is a folder" if Path(model).is_dir() else "does not exist"
        raise InputError(
            f"The model {model!r} {state}. Give a file that piaa fit has saved, or a name that piaa "
            f"knows: {', '.join(list_models())}."
        )
    return Choice(model, None, None, weights, None, device, None)


def _chosen_classes(
    classes: str | Sequence[str],
    encoder: str | None,
    weights: str | None,
    frontend: str | None,
    device: str | None,
    tiles: int | None,
    precision: str | None,
) -> Choice:
    from piaa.classes.class_list import ClassList
    from piaa.encoders.frontends import find_frontend
    from piaa.encoders.lite.sources import LITE_ENCODERS
    from piaa.encoders.precision import PRECISIONS
    from piaa.encoders.registry import find_encoder

    if encoder is not None and encoder not in LITE_ENCODERS:
        find_encoder(encoder)
    if frontend is not None and frontend != "none":
        find_frontend(frontend)
    if precision is not None and precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    found = ClassList.of(classes)
    return Choice(None, found, encoder, weights, frontend, device, tiles, precision)


def _chosen_others(others: str | None) -> Others:
    from piaa.classes.class_list import ClassList

    match others:
        case None | "auto":
            return "auto"
        case "none":
            return None
    return ClassList.of(others)


def _load_model(model: str, weights: str | None, device: str | None) -> Recognizer:
    from piaa.encoders import tuning
    from piaa.recognizer import Recognizer

    tuning.use_kept_threads()
    if weights is None and device is None:
        return Recognizer.load(model)
    from piaa.artifact import load_artifact
    from piaa.encoders.reloading import reload_encoder
    from piaa.errors import ArtifactError

    header = load_artifact(model).header
    try:
        spec, source = header["encoder"], weights or header["source"]
        encoder = reload_encoder(spec, source, device=device)
    except (KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"{model} is not a whole saved recognizer: {error!r}.") from error
    return Recognizer.load(model, encoder)
