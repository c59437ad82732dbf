"""Does the collection hold a class at all?

A class that is absent from the collection is claimed by look-alikes: the images that T ranks highest are then
others' for g, and X finds it where it finds a class that agrees better with its text. T, X and g are the
branches of `piaa.weighting`, (n, C) float32 over n unlabelled images.
"""

from __future__ import annotations

import torch
from torch import Tensor

from piaa.branch_statistics import agreement, ramp, relative, tail_count
from piaa.mixtures import standardize

PRESENT = (1.15, 1.6)  # agreement of T and g on a class, 2 at most, between absent and present
FIRST = (0.5, 0.8)  # share of T's highest images in which g finds no other class likelier
SAME = (0.74, 0.84)  # correlation of X with a class that fits its text better: X is of that one
BORNE_OUT = (0.62, 0.72)  # correlation of X with g, which it has not learnt from, that settles it
SEES = (0.2, 0.4)  # the same, for the upper quarter of the classes, below which g cannot tell
SEEN = (0.45, 0.6)  # the same, relative to other classes, below which X has learnt something else
_CLASSES_AT_ONCE = 256


def presence_of(
    text: Tensor,
    crossfit: Tensor,
    cls: Tensor,
    twin: Tensor,
    clear: Tensor,
    confidence: Tensor,
    *,
    known: float,
    weak: Tensor,
) -> Tensor:
    """(C,) in [0, 1] from T, X and g.

    Args:
        twin: (C,), correlation of X with its nearest look-alike, of `nearest_twin`.
        clear: (C,) in [0, 1], whether X splits the class so clearly that it must be there.
        confidence: (C,) in [0, 1], how sure the banks are; what is left to go by where g knows nothing.
        known: in [0, 1], how far g can be believed.
        weak: () in [0, 1], whether the text is a weak one.
    """
    n, n_classes = text.shape
    by_text = _top_agreement(text, cls) + relative(agreement(text, cls)) - 0.5 * twin
    # With g as it is, not standardized: even the highest images of an absent class are others' by far. That
    # says nothing where g cannot tell classes apart, and no class is its first choice.
    first = _first_choice(text, cls, min(tail_count(n), max(2, n // n_classes)))
    able = 0.5 * first.quantile(0.9)
    agreed = (1 - able) * ramp(by_text, PRESENT) + able * ramp(first, FIRST)
    by_cls = agreement(cls, crossfit)
    agreed = torch.maximum(agreed, ramp(by_cls, BORNE_OUT))
    presence = known * agreed + (1 - known) * ramp(confidence, (0.5, 0.9))
    presence = torch.maximum(presence, clear) * (1 - ramp(twin, SAME))
    # X may be a split that g sees nothing of: wheels that are no motorbike's, under the name of bicycle.
    # Beside a weak text, g knows the names no better; and if it sees nothing of any class, it cannot tell.
    sees = ramp(by_cls.quantile(0.75), SEES)
    unseen = known * sees * (1 - weak) * (1 - ramp(relative(by_cls), SEEN))
    return presence * (1 - unseen)


def nearest_twin(text: Tensor, crossfit: Tensor) -> Tensor:
    """(C,) in [0, 1]: correlation of X with that of the nearest class that agrees better with its text."""
    scores, own = standardize(crossfit), agreement(text, crossfit)
    nearest = [torch.zeros(0)]
    # Not all pairs at once, of which 10,000 classes have a hundred million.
    for some in torch.split(torch.arange(len(own)), _CLASSES_AT_ONCE):
        alike = scores[:, some].T @ scores / len(scores)
        nearest.append(alike.masked_fill_(own <= own[some, None], 0).amax(1))
    return torch.cat(nearest).clamp(0, 1)


def _top_agreement(text: Tensor, cls: Tensor) -> Tensor:
    """(C,): of the images that T ranks highest for a class, the relative share that g gives it too."""
    return relative(_first_choice(text, standardize(cls), tail_count(len(text))))


def _first_choice(text: Tensor, cls: Tensor, count: int) -> Tensor:
    """(C,): of the `count` images that T ranks highest for a class, the share in which it is g's highest."""
    top = text.topk(count, dim=0).indices
    return (cls.argmax(dim=1)[top] == torch.arange(text.shape[1])).float().mean(0)
