"""What an evaluation knows of a method: it may learn from images, and it scores images.

The paper's method and its rivals stand behind one protocol, so that one data set, one encoder and
one metric measure them all. Most work from `ImageFeatures`: features that were encoded once serve
every one of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.classes.class_list import Classes, ClassList, encode_classes
from piaa.encoders.base import Encoder, ImageFeatures
from piaa.errors import InputError
from piaa.features.batches import Images, feature_batches
from piaa.images import Tiles

Templates: TypeAlias = str | Sequence[str]
"""One prompt template, or several whose unit vectors are averaged."""


class Method(Protocol):
    """Scores images for C classes. Made by `piaa.baselines.make_method`."""

    @property
    def name(self) -> str:
        """As `make_method` takes it."""

    @property
    def classes(self) -> ClassList: ...

    @property
    def forward_passes(self) -> str:
        """Passes of the encoder that scoring an image costs, in words."""

    @property
    def needs_pictures(self) -> bool:
        """Whether images must be pictures; otherwise `ImageFeatures` of its encoder will do."""

    @property
    def learns(self) -> bool:
        """Whether `fit` changes the scores; if not, it reads no image."""

    @property
    def transductive(self) -> bool:
        """Whether an image's scores depend on the images that it is scored together with."""

    @property
    def settings(self) -> dict[str, Any]:
        """Every option in effect, as plain JSON values for the record."""

    @property
    def thresholds(self) -> Tensor | None:
        """(C,) float32, the score from which on a class is a tag; None if the method has no rule."""

    def fit(self, images: Images) -> None:
        """Learn from unlabelled images; replaces what was learnt before."""

    def scores(self, images: Images) -> Tensor:
        """Scores (n, C) float32 on the CPU, in order; the higher, the surer.

        They rank the images of a class. Between classes they need not be comparable.
        """


class ZeroShot(ABC):
    """What the rivals share: an encoder, classes, and a text prototype for each class.

    Attributes:
        templates: Prompts around the words of a class.
        text: (C, D) float32 unit text prototypes.
    """

    name: ClassVar[str]
    needs_pictures: ClassVar[bool] = False
    learns: ClassVar[bool] = False
    transductive: ClassVar[bool] = False

    def __init__(
        self, encoder: Encoder, classes: Classes, *, template: Templates | None = None
    ) -> None:
        self.encoder = encoder
        self.classes = ClassList.of(classes)
        self.templates = as_templates(encoder.prompt_template if template is None else template)
        self.text = encode_ensemble(encoder, self.classes, self.templates)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.classes)} classes on {self.encoder!r}>"

    @property
    def forward_passes(self) -> str:
        return passes_per_image(self.encoder)

    @property
    def settings(self) -> dict[str, Any]:
        return {"templates": list(self.templates)}

    @property
    def thresholds(self) -> Tensor | None:
        return None

    def fit(self, images: Images) -> None:  # noqa: B027 (not abstract: few methods learn)
        """Nothing to learn, and so no image is read."""

    @abstractmethod
    def scores(self, images: Images) -> Tensor: ...


class SoftmaxZeroShot(ZeroShot):
    """A rival that ranks by the log-odds of a softmax over the classes of cosines with the text.

    Log-odds rank as the probabilities do, but do not flush to 0. The softmax sets an image's classes
    against each other, so its scale changes the order of images, too.

    Args:
        template: Prompt around each class's words, or several. Default: what suits the encoder.
        scale: Softmax scale. Default: `share` of the encoder's own.
    """

    share: ClassVar[float]

    def __init__(
        self,
        encoder: Encoder,
        classes: Classes,
        *,
        template: Templates | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__(encoder, classes, template=template)
        default = self.share * encoder.text_scale
        self.scale = number_above_0("scale", default if scale is None else scale)

    @property
    def settings(self) -> dict[str, Any]:
        return {**super().settings, "scale": self.scale}

    def scores(self, images: Images) -> Tensor:
        return score_batches(self.encoder, images, self.score)

    @abstractmethod
    def score(self, features: ImageFeatures) -> Tensor:
        """Scores (B, C) of a batch."""


def passes_per_image(encoder: Encoder) -> str:
    """What encoding an image costs, for methods that work from its features."""
    tiles = encoder.spec.tiles
    return "1" if tiles is None else f"{len(Tiles.from_dict(tiles))} (tiles)"


def score_batches(
    encoder: Encoder, images: Images, score: Callable[[ImageFeatures], Tensor]
) -> Tensor:
    """Scores (n, C) on the CPU of all images, batch by batch."""
    parts = [score(part).cpu() for part in feature_batches(encoder, images)]
    if not parts:
        raise InputError("There are no images to score: the list is empty.")
    return torch.cat(parts)


def as_templates(template: Templates) -> tuple[str, ...]:
    templates = (template,) if isinstance(template, str) else tuple(template)
    if not templates:
        raise InputError(
            "template is empty: give one prompt such as 'a photo of a {}', or several."
        )
    return templates


def encode_ensemble(encoder: Encoder, classes: ClassList, templates: Sequence[str]) -> Tensor:
    """Text prototypes (C, D) float32 of unit length: the mean over templates of unit prototypes."""
    parts = [encode_classes(encoder, classes, template) for template in templates]
    return parts[0] if len(parts) == 1 else F.normalize(torch.stack(parts).mean(0), dim=1)


def number_above_0(name: str, value: object) -> float:
    """`value` as a float, once it is known to be a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a finite number above 0, not {value!r}.")
    return float(value)
