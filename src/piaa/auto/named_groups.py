"""What groups of patches say of classes by their names.

Which group has which name may be in doubt. A class is then looked for by several groups, and each says by
itself how far an image holds it: what they say is added up by how likely the name is theirs. (A mean of the
groups' discriminants would say something else. A patch of the less likely group goes to the class that has it
for certain, and is worth no more than a patch of nothing.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from piaa import paa


@dataclass(frozen=True)
class NamedGroups:
    """A classifier of G groups, two or more, and their part in C classes; all float32.

    Attributes:
        weight, bias: (D, G) and (G,), with the softmax scale in them.
        parts: (G, C) in [0, 1], what of each group a class is looked for by. What a column lacks to 1 is left
            to the classifier of the classes themselves.
    """

    weight: Tensor
    bias: Tensor
    parts: Tensor

    def scores(self, patches: Tensor) -> Tensor:
        """Log-odds (B, C) of the groups, each in its best patch of (B, M, D), by their parts."""
        return paa.patch_log_odds(patches, self.weight, bias=self.bias, scale=1.0) @ self.parts

    def beside(self, plain: Tensor, patches: Tensor) -> Tensor:
        """G: `plain` (B, C), log-odds of the classes' own classifier, and those of groups in their place."""
        return (1 - self.parts.sum(0)) * plain + self.scores(patches)

    def counting(self, share: Tensor) -> NamedGroups:
        """The same for a share (C,) in [0, 1] of what they are."""
        return replace(self, parts=share.to(self.parts.device) * self.parts)
