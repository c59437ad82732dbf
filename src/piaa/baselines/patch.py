"""Dense zero-shot scores: each class in the patch that shows it best. The paper's base rows."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from piaa.baselines.base import SoftmaxZeroShot
from piaa.encoders.base import ImageFeatures
from piaa.scoring import text_branch


class Patch(SoftmaxZeroShot):
    """max over patches i of softmax(scale * cos(x_i, t)), as log-odds.

    The default scale for CLIP is 60, at which the published code fills its banks. It has no code
    for the base rows of the paper.
    """

    name: ClassVar[str] = "patch"
    share: ClassVar[float] = 0.6

    def score(self, features: ImageFeatures) -> Tensor:
        return text_branch(features.patches, self.text, self.scale)
