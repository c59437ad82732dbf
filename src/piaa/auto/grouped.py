"""A classifier learnt from groups of patches that have the names of classes, where there are such groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.auto.branch_statistics import ramp
from piaa.auto.groups import Groups, find_groups, stability
from piaa.auto.learned import Learned, matched_scale
from piaa.auto.naming import name_groups
from piaa.config import Config
from piaa.pvcl import Classifier, gda
from piaa.remembered import Remembered

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
        learned: the classifier of all images' groups.
        crossfit: (n, C) float32, each image by the groups of the other half, of mean 0 in each half.
        share: (C,) float32 in [0, 1], how far there are groups, and one of them has the class's name.
        sure: (C,) float32 in [0, 1], the same for a single group, at most `share`.
    """

    learned: Learned
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
        learned, _ = _learn(seen, half, some, groups, text, config)
        scores = seen.scores(learned, len(text), ~half)
        crossfit[~half] = scores - scores.mean(0)
    every = seen.rows(most)
    learned, named = _learn(seen, None, every, find_groups(every, len(text)), text, config)
    share, sure = (there * part.cpu().clamp(0, 1) for part in (named.sum(0), named.amax(0)))
    return Grouped(learned, crossfit, share, sure)


def _learn(
    seen: Remembered,
    chosen: Tensor | None,
    rows: Tensor,
    groups: Groups,
    text: Tensor,
    config: Config,
) -> tuple[Learned, Tensor]:
    """The classifier of classes by the groups of some images' rows (N, D), and their names (G, C)."""
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
    named, parts = name_groups(groups.means - rows.mean(0), share, text)
    classifier = Classifier(of_groups.weight @ parts, of_groups.bias @ parts)
    # Of the groups: where there are few, most names point to the same one, and no scale tells those apart.
    scale = matched_scale(of_groups.scores(rows), config.matched_entropy)
    return Learned(classifier, scale), named
