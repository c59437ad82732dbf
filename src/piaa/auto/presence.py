"""Does the collection hold a class at all?

A class that is absent is learnt from what looks like it: X then finds it in images that show something else.
Three signs tell, none of which needs a label:

- **A witness.** Of the images that X ranks highest, in how many is the class what the global vector stands
  out for? Nothing was learnt from g, so it does not share X's errors.
- **Agreement** of T with g over all images, relative to the other classes': look-alikes of an absent class
  differ between patches and the whole.
- **A twin.** X of an absent class is nearly X of another one that agrees better with its text.

T, X and g are the branches of `piaa.auto.weighting`, (n, C) float32 over n unlabelled images.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from piaa.auto.branch_statistics import agreement, ramp, relative
from piaa.mixtures import standardize

PRESENT = (1.3, 1.6)  # witness and agreement in sum, each relative, 2 at most
SAME = (0.65, 0.8)  # correlation of X with a class that fits its text better: X is of that one
ABLE = (0.15, 0.35)  # witness of the upper quarter of the classes, above chance: else g cannot tell
LEAST_IMAGES = 5  # of X's highest; with many, half of what a class has on average
_CLASSES_AT_ONCE = 256


class Presence(NamedTuple):
    """Both (C,) float32 in [0, 1].

    Attributes:
        seen: how far the signs say that the collection holds a class.
        believed: how far to believe what was learnt of it: the same, but where g cannot tell any class,
            only a twin speaks against it.
    """

    seen: Tensor
    believed: Tensor


def presence_of(text: Tensor, crossfit: Tensor, cls: Tensor) -> Presence:
    """Of C classes, from T, X and g."""
    n_classes = text.shape[1]
    seen_by = witness(crossfit, cls)
    there = ramp(relative(seen_by) + relative(agreement(text, cls)), PRESENT)
    chance = 1 / n_classes
    able = ramp((seen_by.quantile(0.75) - chance) / (1 - chance), ABLE)
    own = 1 - ramp(nearest_twin(text, crossfit), SAME)
    return Presence(there * own, (1 - able * (1 - there)) * own)


def witness(crossfit: Tensor, cls: Tensor) -> Tensor:
    """(C,) in [0, 1]: share of the images X ranks highest for a class that g stands out most for it in."""
    n, n_classes = crossfit.shape
    count = min(n, max(LEAST_IMAGES, n // (2 * n_classes)))
    highest = crossfit.topk(count, dim=0).indices
    # Some names are nearer to every image than others: what an image stands out for is relative to that.
    stands_out_for = (cls - cls.mean(0)).argmax(dim=1)
    return (stands_out_for[highest] == torch.arange(n_classes)).float().mean(0)


def nearest_twin(text: Tensor, crossfit: Tensor) -> Tensor:
    """(C,) in [0, 1]: correlation of X with that of the nearest class that agrees better with its text."""
    scores, own = standardize(crossfit), agreement(text, crossfit)
    nearest = [torch.zeros(0)]
    # Not all pairs at once, of which 10,000 classes have a hundred million.
    for some in torch.split(torch.arange(len(own)), _CLASSES_AT_ONCE):
        alike = scores[:, some].T @ scores / len(scores)
        nearest.append(alike.masked_fill_(own <= own[some, None], 0).amax(1))
    return torch.cat(nearest).clamp(0, 1)
