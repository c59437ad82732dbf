"""Groups of patches that have the names of classes, where there are such groups, and what they say."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.auto.branch_statistics import ramp
from piaa.auto.groups import Groups, find_groups, stability
from piaa.auto.learned import matched_scale
from piaa.auto.named_groups import NamedGroups
from piaa.auto.naming import name_groups
from piaa.config import Config
from piaa.features.remembered import Remembered
from piaa.pvcl import gda

# Adjusted Rand index of two halves' groups, from which and to which groups count. Features of
# photographs have 0.05 to 0.35, worlds of separate things 0.75 to 1 (docs/method.md).
STABLE = (0.5, 0.7)
_LEAST_IMAGES = 10  # in either half
_MOST_CLASSES = 250  # beyond, the rows below are too few for so many seeds
_MOST_ROWS, _MOST_NUMBERS = 20_000, 2**23  # that groups are looked for in


@dataclass(frozen=True)
class Grouped:
    """What groups say of the C classes.

    Attributes:
        groups: those of all images, for `share` of each class.
        crossfit: (n, C) float32, each image by the groups of the other half, of mean 0 in each half.
        share: (C,) float32 in [0, 1], how far there are groups, and one of them has the class's name.
        sure: (C,) float32 in [0, 1], the same for the likeliest of them alone, at most `share`.
    """

    groups: NamedGroups
    crossfit: Tensor
    share: Tensor
    sure: Tensor


def learn_groups(seen: Remembered, text: Tensor, config: Config) -> Grouped | None:
    """By the groups that are found in both halves of the images; None if these are not the same ones.

    text: (C, D) unit prototypes.
    """
    halves = (~seen.in_second, seen.in_second)
    if len(text) > _MOST_CLASSES or min(int(half.sum()) for half in halves) < _LEAST_IMAGES:
        return None
    most = min(_MOST_ROWS, _MOST_NUMBERS // text.shape[1])
    rows = [seen.rows(most, half) for half in halves]
    found = [find_groups(some, len(text)) for some in rows]
    stable = stability(found[0].nearest(rows[1]), found[1].label)
    there = float(ramp(torch.tensor(stable), STABLE))
    if there == 0 or min(len(groups.means) for groups in found) < 2:
        return None
    crossfit = torch.empty(len(seen.cls), len(text))
    for half, some, groups in zip(halves, rows, found, strict=True):
        named, _ = _name(seen, half, some, groups, text, config)
        scores = seen.scores(named.scores, len(text), ~half)
        crossfit[~half] = scores - scores.mean(0)
    every = seen.rows(most)
    of_all = find_groups(every, len(text))
    if len(of_all.means) < 2:
        return None
    named, likely = _name(seen, None, every, of_all, text, config)
    share, sure = (there * part.cpu().clamp(0, 1) for part in (likely.sum(0), likely.amax(0)))
    return Grouped(named.counting(share), crossfit, share, sure)


def _name(
    seen: Remembered,
    chosen: Tensor | None,
    rows: Tensor,
    groups: Groups,
    text: Tensor,
    config: Config,
) -> tuple[NamedGroups, Tensor]:
    """Groups of some images' rows (N, D), and how likely each has each class's name, (G, C)."""
    of_groups = gda.fit(
        rows,
        groups.label,
        groups.means,
        covariance=config.covariance,
        shrinkage=config.shrinkage,
        log_prior=False,
    )
    count = len(groups.means)

    def held(patches: Tensor) -> Tensor:
        """(B, G): whether each image (B, M, D) holds some of each group."""
        return F.one_hot(of_groups.scores(patches).argmax(-1), count).any(1).float()

    share = seen.scores(held, count, chosen).mean(0).to(rows.device)
    likely, parts = name_groups(groups.means - rows.mean(0), share, text)
    scale = matched_scale(of_groups.scores(rows), config.matched_entropy)
    return NamedGroups(scale * of_groups.weight, scale * of_groups.bias, parts), likely
