"""Images that the text is surer of than of any that was learnt from.

A class that a collection does not hold, or holds in one guise only, is learnt from what looks like it:
motorbikes under the name of bicycle. What was learnt then speaks against bicycles, which no image showed.
That is seen at the image: text on its patches and on the whole of it stands above what the collection's
highest images had. The learnt branches know nothing of its like, and so they say at least what they say of
those.

Of a class that is there, few images are above them, and nearly all of these hold it: nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

HIGHEST = 0.02  # share of the images; five at least
CLEARLY = 0.5  # standard deviations above the highest images at which the learnt branches are lifted in full


@dataclass(frozen=True)
class Beyond:
    """Where a class's known images end, all (C,) float32.

    Attributes:
        level: evidence of the text branches in the collection's highest images, on average.
        width: above it, how far to where the learnt branches are lifted in full; positive.
        floor: what the learnt branches say of those images, on average.
    """

    level: Tensor
    width: Tensor
    floor: Tensor

    @staticmethod
    def of(by_text: Tensor, by_learned: Tensor) -> Beyond:
        """From weighed evidence (n, C) of unlabelled images: of T and g, and of G and h."""
        n = len(by_text)
        highest = by_text.topk(min(n, max(5, int(HIGHEST * n))), dim=0)
        spread = by_text.std(0, unbiased=False)
        return Beyond(
            level=highest.values.mean(0),
            # A text that is not heard, or the same for all images, is never above its level.
            width=torch.where(spread > 1e-6, CLEARLY * spread, 1),
            floor=by_learned.gather(0, highest.indices).mean(0),
        )

    def lift(self, by_text: Tensor, by_learned: Tensor) -> Tensor:
        """What the learnt branches say, (B, C), of images of which these and the text say that much."""
        level, width, floor = (
            part.to(by_text.device, non_blocking=True)
            for part in (self.level, self.width, self.floor)
        )
        above = ((by_text - level) / width).clamp(0, 1)
        return by_learned + above * (floor - by_learned).clamp_min(0)
