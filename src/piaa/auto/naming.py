"""Which group of patches has which class's name: all names at once, by how near texts are to groups.

Given one by one, names whose texts are weak would all go to the same few groups. Here no two names are of one
group, nor two groups of one name, so that a name whose text points nowhere gets what the others leave over.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.auto.branch_statistics import ramp

# Odds that a class has no group, against one that its text says nothing of.
_UNNAMED = math.exp(-6.0)
_LEAST_RARITY = 1e-3  # share of images without a group, below which it makes no difference
_ROUNDS = 5
_SETTLING = 200
_MOST_ODDS = 50.0  # nats
# Power of odds: with 1 names are too unsure, with 2 as sure as by counting all orders, also the wrong ones.
_SHARPNESS = 1.5
# Odds of two names the other way round: from which on, and where wholly, nobody can tell.
TORN = (0.15, 0.3)


class Names(NamedTuple):
    """Of G groups and C classes, both (G, C) float32.

    Attributes:
        likely: how likely each group has each class's name; rows and columns sum to at most 1.
        parts: what of each group a class is looked for by; columns sum to 1.
    """

    likely: Tensor
    parts: Tensor


def name_groups(means: Tensor, share: Tensor, text: Tensor) -> Names:
    """Name groups by the texts nearest to them.

    A text is nearer to its own group than to others: by `near` on average, with the spread that all other
    pairs show. That gives every pair its odds. A group that is in nearly all images is background rather than
    a class. What pairs say is then balanced.

    Args:
        means: (G, D) float32, relative to the mean of all patches.
        share: (G,) in [0, 1], of the images that hold some of the group.
        text: (C, D) float32 unit text prototypes, two or more.
    """
    prototypes = F.normalize(text - text.mean(0), dim=1).double()
    nearness = means.double() @ prototypes.T
    rarity = 2 * (1 - share.double()).clamp_min(_LEAST_RARITY).log()[:, None]
    near = nearness.amax(0).median()
    likely = torch.zeros_like(nearness)
    for _ in range(_ROUNDS):
        others = nearness[nearness < near / 2]
        noise = others.square().mean() if len(others) else nearness.square().mean()
        odds = near * (nearness - near / 2) / noise.clamp_min(1e-12) + rarity
        likely = _balance(odds.clamp(-_MOST_ODDS, _MOST_ODDS))
        near = (likely * nearness).sum() / likely.sum().clamp_min(1e-6)
    return Names(likely.float(), _parts(likely).float())


def _balance(odds: Tensor) -> Tensor:
    """Probabilities (G, C) of pairs by their odds in nats; what a row or column lacks to 1 is for no pair.

    Of a power of the odds: in a balanced table what speaks for one order of two names, and against the
    other, is spread over both, so that each would be only half as sure as the two orders' own odds.
    """
    sharper, unnamed = (_SHARPNESS * odds).exp(), _UNNAMED**_SHARPNESS
    of_group, of_class = odds.new_ones(len(odds)), odds.new_ones(odds.shape[1])
    for _ in range(_SETTLING):
        of_class = (unnamed + sharper.T @ of_group).reciprocal()
        of_group = (1 + sharper @ of_class).reciprocal()
    return of_group[:, None] * sharper * of_class


def _parts(likely: Tensor) -> Tensor:
    """What of each group a class is looked for by, (G, C), from how likely each has its name.

    Two names that may as well be the other way round have both groups alike. To be half right of two classes
    is worth more than to be wrong of both now and then.
    """
    has = likely.sum(0)
    best = F.one_hot(likely.argmax(0), len(likely)).T.to(likely.dtype)
    crossed = best.T @ likely  # (C, C): how likely the group of one class has the name of another
    own = crossed.diagonal()
    turned = (crossed * crossed.T / (own[:, None] * own).clamp_min(1e-12)) ** (1 / _SHARPNESS)
    torn = ramp(turned * (has[:, None] * has) * (1 - best.T @ best), TORN)
    both = best + best @ torn
    return torch.lerp(likely / has.clamp_min(1e-6), both / both.sum(0), torn.amax(0))
