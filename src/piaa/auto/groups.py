"""Groups of patches by looks alone.

Banks hold the patches that a class's text is nearest to. Where the text is weak they are filled with the
patches of several things, and no cleaning of one bank can tell which of them was meant. Patches may have an
order of their own, though: things that look alike. Here groups are found without any text, before any of them
gets a name (`piaa.auto.naming`).

Whether there are such groups at all, or only a cloud that can be cut up anyhow, is seen by looking twice: two
halves of a collection that has groups show the same ones (`stability`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_BESIDE_CLASSES = 8  # groups that are no class's: grass, walls, sky
_SEEDS_A_GROUP = 4
_LEAST_ROWS_A_SEED = 10
_ROUNDS = 12


@dataclass(frozen=True)
class Groups:
    """A partition of vectors into G groups.

    Attributes:
        means: (G, D) float32.
        label: (N,) int64, the group of each vector.
    """

    means: Tensor
    label: Tensor

    def nearest(self, rows: Tensor) -> Tensor:
        """The group (N,) int64 whose mean each of other rows (N, D) is nearest to."""
        return _nearest(rows, self.means)


def find_groups(rows: Tensor, n_classes: int) -> Groups:
    """Groups of (N, D) float32 rows, as many as describe them best, of somewhat more than `n_classes`.

    Several times as many seeds (k-means++) are joined two at a time, those first that lose least (Ward),
    and the best number of groups is that of the lowest Bayesian information criterion, taking
    groups for round and equally wide. With no more seeds than groups, one would miss some for good.
    """
    expected = n_classes + _BESIDE_CLASSES
    seen = _principal(rows, expected)
    n_seeds = max(1, min(_SEEDS_A_GROUP * expected, len(rows) // _LEAST_ROWS_A_SEED))
    seed = _settle(seen, _spread_seeds(seen, n_seeds), _ROUNDS)
    label = _join(seen, seed, n_seeds)[seed]
    count = int(label.max()) + 1
    label = _settle(seen, _means(seen, label, count), _ROUNDS // 3)
    return Groups(_means(rows, label, count), label)


def stability(one: Tensor, two: Tensor) -> float:
    """Adjusted Rand index of two partitions (N,) int64 of the same vectors, at most 1.

    1: the same partition, whatever its groups are called; 0: as alike as by chance.
    """
    n = len(one)
    table = torch.zeros(int(one.max()) + 1, int(two.max()) + 1, dtype=torch.float64)
    table.index_put_((one.cpu(), two.cpu()), torch.ones(n, dtype=torch.float64), accumulate=True)
    together, by_one, by_two = (
        float((counts * (counts - 1)).sum()) for counts in (table, table.sum(1), table.sum(0))
    )
    by_chance = by_one * by_two / max(n * (n - 1), 1)
    most = (by_one + by_two) / 2
    return (together - by_chance) / (most - by_chance) if most > by_chance else 1.0


def _principal(rows: Tensor, count: int) -> Tensor:
    """The (N, D) rows along the `count` directions in which they are spread most, (N, count) or (N, D).

    The means of as many groups lie along them, and the noise in all other directions is gone.
    """
    if count >= rows.shape[1]:
        return rows
    centered = rows - rows.mean(0)
    directions: Tensor = torch.linalg.eigh((centered.T @ centered).double()).eigenvectors
    return centered @ directions[:, -count:].float()


def _spread_seeds(rows: Tensor, count: int) -> Tensor:
    """(count, D): rows drawn far from each other (k-means++), the same ones each time."""
    random = torch.Generator().manual_seed(0)
    length = rows.square().sum(1)
    distance = torch.ones_like(length)
    seeds: list[Tensor] = []
    for _ in range(count):
        drawn = torch.multinomial(distance.cpu() + 1e-12, 1, generator=random)
        seed = rows[int(drawn)]
        far = torch.addmv(length + seed @ seed, rows, seed, alpha=-2).clamp_min_(0)
        distance = torch.minimum(distance, far) if seeds else far
        seeds.append(seed)
    return torch.stack(seeds)


def _settle(rows: Tensor, means: Tensor, rounds: int) -> Tensor:
    """The group (N,) of each row after some rounds of k-means from those means (G, D)."""
    for _ in range(rounds):
        label = _nearest(rows, means)
        emptied = torch.bincount(label, minlength=len(means)) == 0
        means = torch.where(emptied[:, None], means, _means(rows, label, len(means)))
    return _nearest(rows, means)


def _nearest(rows: Tensor, means: Tensor) -> Tensor:
    distance = torch.addmm(means.square().sum(1), rows, means.T, alpha=-2)
    if distance.device.type != "cpu":
        return distance.argmin(1)
    return torch.from_numpy(distance.numpy().argmin(1))  # of what torch takes, a third


def _means(rows: Tensor, label: Tensor, count: int) -> Tensor:
    sums = rows.new_zeros(count, rows.shape[1]).index_add_(0, label, rows)
    return sums / torch.bincount(label, minlength=count).clamp_min(1)[:, None]


def _join(rows: Tensor, label: Tensor, count: int) -> Tensor:
    """The group, numbered from 0, of each of `count` seeds, (count,) int64, that rows are labeled with."""
    n, dim = rows.shape
    size = torch.bincount(label, minlength=count).double().cpu()
    means = _means(rows, label, count).double().cpu()
    group = torch.arange(count)
    spread = float(rows.double().square().sum()) - float((size * means.square().sum(1)).sum())
    costs = torch.cdist(means, means).square() * _joint(size[:, None], size)
    costs.fill_diagonal_(math.inf)
    costs[size == 0], costs[:, size == 0] = math.inf, math.inf
    seen = costs.numpy()  # the same memory; numpy finds the least of it several times as fast
    best, chosen = math.inf, group
    for live in range(int((size > 0).sum()), 0, -1):
        shares = size[size > 0] / n
        surprise = dim * math.log(max(spread, 1e-9) / (n * dim)) - 2 * float(shares @ shares.log())
        criterion = n * surprise + live * (dim + 1) * math.log(n)
        if criterion < best:
            best, chosen = criterion, group.clone()
        if live == 1:
            break
        one, two = divmod(int(seen.argmin()), count)
        spread += float(costs[one, two])
        together = size[one] + size[two]
        means[one] = (size[one] * means[one] + size[two] * means[two]) / together
        size[one], size[two] = together, 0
        group[group == two] = one
        row = (means - means[one]).square().sum(1) * _joint(size, size[one])
        row[size == 0], row[one] = math.inf, math.inf
        costs[two], costs[:, two] = math.inf, math.inf
        costs[one], costs[:, one] = row, row
    chosen = chosen.to(label.device)
    held = chosen[label].bincount(minlength=count) > 0
    return (held.cumsum(0) - 1)[chosen]


def _joint(one: Tensor, two: Tensor) -> Tensor:
    """Times the squared distance of two means: what joining groups of these sizes adds to the spread."""
    return one * two / (one + two).clamp_min(1)
