"""Zero-shot CLIP: the global vector against the text prototypes."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from piaa.baselines.base import SoftmaxZeroShot
from piaa.encoders.base import ImageFeatures
from piaa.scoring import cls_branch


class Cls(SoftmaxZeroShot):
    """softmax(scale * cos(z, t)) of the global vector z (Radford et al., 2021), as log-odds.

    The default scale is the encoder's own, 100 for CLIP.
    """

    name: ClassVar[str] = "cls"
    share: ClassVar[float] = 1.0

    def score(self, features: ImageFeatures) -> Tensor:
        return cls_branch(features.cls, self.text, self.scale)
