"""Two-step search for large vocabularies: coarse clusters of classes, then exact products.

Scoring an image costs a product of every patch with every class. Beyond some ten thousand classes
most of that is spent on classes that are nowhere near. Here classes are put into clusters once;
an image's patches are compared with the cluster means, and only the members of the best clusters,
and the classes that the global vector is nearest to, are looked at one by one.

What is exact and what is not, for the classes on an image's shortlist:

- The branches of the global vector (g and h) are computed for every class, as always: exact. So is what
  groups of patches say (`piaa.auto.named_groups`): they are of few classes only.
- The products of patches and classes (T and G) are those of the full computation.
- Their softmax is over *all* classes. Clusters that are listed in full enter its denominator class
  by class; any other as if its members' scores were normally distributed around its mean:
  log sum exp = log n + mean + variance / 2. That is an approximation. It moves all classes of
  a patch alike, and benchmarks/shortlist.py prints by how much it moves the evidence.
- What classes say against each other (`piaa.auto.company`) is heard from the listed ones only: the
  other approximation, and nothing where what an image shows is on its list.

Classes off the list score 0. Nothing is lost if all clusters are chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from piaa import paa
from piaa.encoders.base import ImageFeatures
from piaa.errors import InputError
from piaa.scoring import Scorer, cls_branch

_ROUNDS = 8
_COSINES_AT_ONCE = 2**22
# Of a shortlist, the part that comes from the patches; the rest from the global vector.
_PATCH_SHARE = 0.75


@dataclass(frozen=True)
class Clusters:
    """A partition of C classes into N clusters, none of them empty.

    Attributes:
        label: (C,) int64, cluster of each class.
        order: (C,) int64, classes by cluster, ascending within one.
        sizes: (N,) int64.
    """

    label: Tensor
    order: Tensor
    sizes: Tensor

    @staticmethod
    def of(vectors: Tensor, *, count: int | None = None) -> Clusters:
        """Spherical k-means of the (C, D) unit vectors, the same for the same vectors.

        Args:
            count: clusters to aim at; some may end up empty and are left out. `None`: 4 * sqrt(C).
        """
        n_classes = len(vectors)
        count = min(n_classes, round(4 * math.sqrt(n_classes)) if count is None else count)
        if count < 1:
            raise InputError(f"There must be at least one cluster and one class, got {count}.")
        seeds = torch.randperm(n_classes, generator=torch.Generator().manual_seed(0))[:count]
        centers = vectors[seeds.to(vectors.device)]
        for _ in range(_ROUNDS):
            label = _nearest(vectors, centers)
            sums = torch.zeros_like(centers).index_add_(0, label, vectors)
            # A center that lost all its classes stays where it is.
            centers = torch.where(sums.any(1, keepdim=True), normalize(sums, dim=1), centers)
        _, label = torch.unique(_nearest(vectors, centers), return_inverse=True)
        return Clusters(label, label.argsort(stable=True), label.bincount())

    def mean(self, values: Tensor) -> Tensor:
        """Mean of (C, ...) over each cluster, (N, ...) of the same type."""
        sums = values.new_zeros(len(self.sizes), *values.shape[1:])
        sums.index_add_(0, self.label, values)
        return sums / self.sizes.view(-1, *[1] * (values.ndim - 1))


@dataclass(frozen=True)
class PatchBranch:
    """A branch of evidence from patches: log-odds of softmax(x @ vectors.T + offset) over classes.

    Attributes:
        vectors, offset: (C, D) and (C,) float32, with the softmax scale in them.
        weight: (C,) float32, of the branch in the evidence.
        mean, level: (N, D) and (N,) float32: a cluster's mean vector, and the log of its size plus
            its mean offset plus half the variance of its members' scores for a random direction.
    """

    vectors: Tensor
    offset: Tensor
    weight: Tensor
    mean: Tensor
    level: Tensor

    @staticmethod
    def of(vectors: Tensor, offset: Tensor, weight: Tensor, clusters: Clusters) -> PatchBranch:
        mean = clusters.mean(vectors)
        apart = vectors.square().sum(1) - mean.square().sum(1)[clusters.label]
        middle = clusters.mean(offset)
        variance = clusters.mean(apart) / vectors.shape[1]
        variance = variance + clusters.mean((offset - middle[clusters.label]).square())
        level = clusters.sizes.log() + middle + 0.5 * variance
        return PatchBranch(vectors, offset, weight, mean, level)

    def coarse(self, patches: Tensor) -> Tensor:
        """log of the sum over a cluster's members of exp(score), estimated: (M, D) to (N, M)."""
        return torch.addmm(self.level[:, None], self.mean, patches.T)

    def fine(self, patches: Tensor, coarse: Tensor, classes: Tensor, listed: Listed) -> Tensor:
        """Log-odds (S,) of the listed classes (S,) in the best of the (M, D) patches."""
        scores = torch.addmm(self.offset[classes, None], self.vectors[classes], patches.T)
        shift = torch.maximum(scores.amax(0), coarse.amax(0))
        sums = torch.zeros_like(coarse).index_add_(0, listed.cluster, (scores - shift).exp_())
        # An estimate is of all members; one of them may be listed and alone exceed it.
        guesses = torch.maximum((coarse - shift).exp_(), sums)
        total = torch.where(listed.complete[:, None], sums, guesses).sum(0).log_().add_(shift)
        return paa.log_odds((scores - total).amax(1))


@dataclass(frozen=True)
class Listed:
    """Where listed classes belong: their clusters (S,), and which clusters (N,) are on in full."""

    cluster: Tensor
    complete: Tensor


class Shortlist:
    """A scorer's two-step form. Making it clusters the classes, which is worth keeping.

    Args:
        scorer: of at least two classes and the auto form.
        clusters: of its classes; `None` makes them from its text prototypes.
    """

    def __init__(self, scorer: Scorer, clusters: Clusters | None = None) -> None:
        if scorer.published_form:
            raise InputError(
                "A shortlist needs the weighted form of Config.auto(); the presets 'paper' and "
                "'reference' take a second softmax over all classes. Leave shortlist away."
            )
        if len(scorer.text) < 2:
            raise InputError("A shortlist needs at least two classes.")
        self.scorer = scorer
        self.clusters = Clusters.of(scorer.text) if clusters is None else clusters
        self._ends = self.clusters.sizes.cumsum(0)
        self._branches: list[PatchBranch] = []
        device, weights = scorer.text.device, scorer.weights
        if weights.text.any():
            none = torch.zeros(len(scorer.text), device=device)
            self._add(scorer.text * scorer.scales.text, none, weights.text)
        self._learns = scorer.classifier is not None and bool(weights.learned.any())
        if scorer.classifier is not None and self._learns:
            head, scale = scorer.classifier, scorer.scales.learned
            weight = weights.learned.to(device)
            if scorer.groups is not None:
                weight = weight * (1 - scorer.groups.parts.sum(0))
            self._add(head.weight.T.contiguous() * scale, head.bias * scale, weight)

    def _add(self, vectors: Tensor, offset: Tensor, weight: Tensor) -> None:
        weight = weight.to(vectors.device)
        self._branches.append(PatchBranch.of(vectors, offset, weight, self.clusters))

    def evidence(self, features: ImageFeatures, count: int) -> Tensor:
        """As `Scorer.evidence`, (B, C), for about `count` classes of each image; -inf for the rest."""
        if type(count) is not int or count < 1:
            raise InputError(
                f"A shortlist's length must be a whole number of at least 1, not {count!r}."
            )
        scorer, weights = self.scorer, self.scorer.weights
        device = features.cls.device
        n_images, n_classes = len(features.cls), len(scorer.text)
        by_text, by_learned = torch.zeros(2, n_images, n_classes, device=device)
        if weights.cls.any():
            by_text += weights.cls.to(device) * cls_branch(
                features.cls, scorer.text, scorer.scales.cls
            )
        if scorer.whole is not None:
            by_learned += weights.whole.to(device) * scorer.whole.scores(features.cls)
        if scorer.groups is not None:
            by_learned += weights.learned.to(device) * scorer.groups.scores(features.patches)
        listed = torch.zeros(n_images, n_classes, dtype=torch.bool, device=device)
        sums = [by_text] * bool(weights.text.any()) + [by_learned] * self._learns
        for image, patches in enumerate(features.patches):
            # As scores are ranked: by the distance from each class's threshold.
            standing = by_text[image] + by_learned[image] - scorer.thresholds.to(device)
            classes, by_branch = self._search(patches, standing, count)
            listed[image, classes] = True
            for branch, scores, total in zip(self._branches, by_branch, sums, strict=True):
                total[image, classes] += branch.weight[classes] * scores
        return scorer.together(
            by_text.masked_fill_(~listed, -torch.inf), by_learned.masked_fill_(~listed, 0)
        )

    def scores(self, features: ImageFeatures, count: int) -> Tensor:
        """As `Scorer.scores`; 0 for the classes off the list."""
        evidence = self.evidence(features, count)
        thresholds = self.scorer.thresholds.to(evidence.device)
        return torch.sigmoid(self.scorer.slope * (evidence - thresholds))

    def _search(self, patches: Tensor, standing: Tensor, count: int) -> tuple[Tensor, list[Tensor]]:
        """The shortlist of an image, (S,) classes, and what its (M, D) patches say of them, (S,) a branch.

        standing (C,) is how the classes stand without the patches.
        """
        coarse = [branch.coarse(patches) for branch in self._branches]
        inside = self._members(self._best_clusters(coarse, standing, count))
        apart = standing.index_fill(0, inside, -torch.inf)
        extra = min(math.ceil((1 - _PATCH_SHARE) * count), len(standing) - len(inside))
        more = apart.topk(extra).indices
        classes = torch.cat([inside, more])
        cluster = self.clusters.label[classes]
        complete = cluster.bincount(minlength=len(self._ends)) == self.clusters.sizes
        listed = Listed(cluster, complete)
        return classes, [
            branch.fine(patches, estimate, classes, listed)
            for branch, estimate in zip(self._branches, coarse, strict=True)
        ]

    def _best_clusters(self, coarse: list[Tensor], standing: Tensor, count: int) -> Tensor:
        """The clusters whose mean member has the most evidence, as many as hold the patches' part."""
        clusters = self.clusters
        rank = clusters.mean(standing)
        for branch, estimate in zip(self._branches, coarse, strict=True):
            typical = estimate - estimate.logsumexp(0) - clusters.sizes.log()[:, None]
            rank += clusters.mean(branch.weight) * paa.log_odds(typical.amax(1))
        order = rank.argsort(descending=True, stable=True)
        held = clusters.sizes[order].cumsum(0)
        enough = int((held < _PATCH_SHARE * count).sum()) + 1
        return order[:enough]

    def _members(self, chosen: Tensor) -> Tensor:
        ends = self._ends[chosen].tolist()
        sizes = self.clusters.sizes[chosen].tolist()
        order = self.clusters.order
        return torch.cat([order[e - n : e] for e, n in zip(ends, sizes, strict=True)])


def _nearest(vectors: Tensor, centers: Tensor) -> Tensor:
    """Index (C,) of the center of the highest product, a bounded number of products at a time."""
    step = max(1, _COSINES_AT_ONCE // len(centers))
    return torch.cat([(part @ centers.T).argmax(1) for part in torch.split(vectors, step)])
