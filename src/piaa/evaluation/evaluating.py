"""One data set, one encoder, some methods: what `piaa evaluate` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from piaa.baselines import Method, make_method
from piaa.baselines.piaa import Piaa
from piaa.config import Config
from piaa.datasets import Dataset
from piaa.encoders.base import Encoder
from piaa.encoders.tiled import TiledEncoder
from piaa.errors import InputError, UnknownNameError
from piaa.evaluation.bootstrap import ROUNDS, Interval
from piaa.evaluation.curves import Curve
from piaa.evaluation.encoded import Advance, Encoded, FeatureSets
from piaa.evaluation.record import environment, protocol
from piaa.evaluation.running import Measured, compare, measure
from piaa.images import Tiles
from piaa.recognizer import Recognizer

PRESETS = ("auto", "reference", "paper")

Watch = Callable[[str, int], AbstractContextManager[Advance | None]]
"""Told of a part of the work and its number of images; gives what counts them."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All results on a data set; `versus` holds the first method's mAP minus each one's."""

    dataset: Dataset
    encoder: Encoder
    measured: tuple[Measured, ...]
    versus: tuple[Interval | None, ...]
    curve: Curve | None = None

    def to_dict(self, command: Sequence[str]) -> dict[str, Any]:
        """Results with everything they depend on, as plain JSON values."""
        results = [
            {**one.to_dict(), "first_minus_this": None if gap is None else asdict(gap)}
            for one, gap in zip(self.measured, self.versus, strict=True)
        ]
        return {
            "command": list(command),
            "results": results,
            "learning_curve": None
            if self.curve is None
            else {"zero_shot": self.curve.zero_shot, "sizes": self.curve.rows()},
            "protocol": protocol(self.dataset, self.encoder),
            "versions": environment(),
        }


def find_config(preset: str, dataset: Dataset) -> Config:
    """The settings of a preset; "reference" is the published constants for that data set."""
    if preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS)
    if preset == "auto":
        return Config.auto()
    if preset == "paper":
        return Config.paper()
    if dataset.preset is None:
        raise InputError(
            f"The published code has no constants for {dataset.name}. Use the preset auto or paper."
        )
    return Config.reference(dataset.preset)


def make_methods(
    names: Sequence[str],
    encoder: Encoder,
    dataset: Dataset,
    *,
    config: Config | None = None,
    model: Recognizer | None = None,
) -> list[Method]:
    """The methods asked for; piaa is the model, if there is one."""
    if len(set(names)) < len(names):
        raise InputError(f"A method is named twice: {', '.join(names)}.")
    methods: list[Method] = []
    for name in names:
        if name == "piaa" and model is not None:
            methods.append(Piaa.of(model))
        else:
            options = {"config": config} if name == "piaa" and config is not None else {}
            methods.append(make_method(name, encoder, dataset.classes, **options))
    return methods


def evaluate(
    dataset: Dataset,
    encoder: Encoder,
    methods: Sequence[Method],
    sets: FeatureSets,
    *,
    fit: bool = True,
    tiles: int | None = None,
    config: Config | None = None,
    rounds: int = ROUNDS,
    watch: Watch | None = None,
) -> Evaluation:
    """Measure methods on a data set, features encoded once for all of them.

    Args:
        methods: made for `encoder`.
        fit: let those that learn do so, from the images to learn from, without labels.
        tiles: measure piaa, made with `config`, on n x n windows of each picture as well.
        rounds: of the bootstrap.
    """
    watching: Watch = watch or (lambda _what, _n: nullcontext(None))
    features = _Features(dataset, encoder, sets, watching)
    if tiles is not None:  # their cost is a ratio, and both must be timed on one and the same day
        features.get("test").measure_speed()
    measured = [features.measure(method, fit=fit, rounds=rounds) for method in methods]
    if tiles is not None:
        windows = TiledEncoder(encoder, Tiles(rows=tiles, columns=tiles))
        (tiled,) = make_methods(["piaa"], windows, dataset, config=config)
        label = f"piaa, tiles {tiles} x {tiles}"
        more = _Features(dataset, windows, sets, watching)
        more.get("test").measure_speed()
        measured.append(more.measure(tiled, fit=fit, rounds=rounds, label=label))
    versus = compare(measured, dataset, rounds=rounds)
    return Evaluation(dataset, encoder, tuple(measured), tuple(versus))


class _Features:
    """Encodes a data set's splits when they are first asked for."""

    def __init__(self, dataset: Dataset, encoder: Encoder, sets: FeatureSets, watch: Watch) -> None:
        self.dataset, self.encoder, self.sets, self.watch = dataset, encoder, sets, watch
        self._known: dict[str, Encoded] = {}

    def measure(
        self, method: Method, *, fit: bool, rounds: int, label: str | None = None
    ) -> Measured:
        learn = self.get("learn") if fit and method.learns else None
        test = None if method.needs_pictures else self.get("test")
        with self.watch(f"Scoring with {label or method.name}", len(self.dataset.test)):
            return measure(method, self.dataset, learn=learn, test=test, rounds=rounds, label=label)

    def get(self, part: str) -> Encoded:
        if part not in self._known:
            split = self.dataset.learn if part == "learn" else self.dataset.test
            with self.watch(f"Encoding {split.name}", len(split)) as advance:
                self._known[part] = self.sets.get(self.encoder, split.paths, advance=advance)
        return self._known[part]
