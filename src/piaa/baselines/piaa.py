"""The paper's method, behind the interface of its rivals."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from torch import Tensor

from piaa.baselines.base import passes_per_image, score_batches
from piaa.classes.class_list import Classes, ClassList
from piaa.config import Config
from piaa.encoders.base import Encoder
from piaa.features.batches import Images
from piaa.recognizer import Recognizer


class Piaa:
    """PVCL and PAA: a `piaa.Recognizer`. Before `fit` it is the text on patches and on the image.

    Scores are evidence on the scale of log-odds, which unlike the scores of predictions never
    rounds two images to a tie.

    Args:
        template: Prompt around each class's words. Default: what suits the encoder.
        config: How to learn and score. Default: `Config.auto()`.
    """

    name: ClassVar[str] = "piaa"
    needs_pictures: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    transductive: ClassVar[bool] = False

    def __init__(
        self,
        encoder: Encoder,
        classes: Classes,
        *,
        template: str | None = None,
        config: Config | None = None,
    ) -> None:
        self.recognizer = Recognizer(encoder, classes, config=config, template=template)

    @classmethod
    def of(cls, recognizer: Recognizer) -> Self:
        """A recognizer as it is, such as one that was loaded."""
        method = cls.__new__(cls)
        method.recognizer = recognizer
        return method

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.recognizer!r}>"

    @property
    def classes(self) -> ClassList:
        return self.recognizer.classes

    @property
    def forward_passes(self) -> str:
        return passes_per_image(self.recognizer.encoder)

    @property
    def settings(self) -> dict[str, Any]:
        recognizer = self.recognizer
        return {
            "templates": [recognizer.template],
            "others": list(recognizer.others),
            "config": recognizer.config.to_dict(),
            "fitted_images": recognizer.report.n_images if recognizer.is_fitted else 0,
        }

    @property
    def thresholds(self) -> Tensor | None:
        return self.recognizer.scorer.thresholds.cpu()

    def fit(self, images: Images) -> None:
        self.recognizer.fit(images)

    def scores(self, images: Images) -> Tensor:
        return score_batches(self.recognizer.encoder, images, self.recognizer.scorer.evidence)
