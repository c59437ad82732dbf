"""The published learning and scoring procedure, step by step, to measure against.

It follows the scripts of the paper's repository as they run: lists per class of features, entropies
and whole probability rows, joined and cut to the K best every 20 batches; banks as Python lists of
one tuple a vector; means, covariance (evaluated twice in one expression) and pseudo-inverse for the
bank and again for what purification keeps; at test, a shifted exponential divided by its sum.
Encoding and the normalization of its output are left out, as they are on the other side.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

_BATCHES_BETWEEN_CUTS = 20

Banks = dict[int, list[tuple[Tensor, Tensor]]]


class PublishedLearning:
    """Stage I on `update`; stages I to III on `solve`."""

    def __init__(self, text: Tensor, *, size: int, scale: float, purify_scale: float) -> None:
        self.text, self.size, self.scale, self.purify_scale = text, size, scale, purify_scale
        self.n_batches = 0
        self.best: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self.waiting: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in text]

    def update(self, patches: Tensor) -> None:
        rows = patches.view(-1, patches.shape[-1])
        cosines = torch.mm(rows, self.text.T)
        probability = (cosines * self.scale).softmax(dim=-1)
        entropy = -(probability * probability.clamp_min(1e-10).log()).sum(dim=-1)
        predicted = cosines.argmax(dim=-1)
        for c in predicted.unique().tolist():
            mask = predicted == c
            self.waiting[c].append((rows[mask], entropy[mask], probability[mask]))
        self.n_batches += 1
        if self.n_batches % _BATCHES_BETWEEN_CUTS == 0:
            self.cut()

    def cut(self) -> None:
        for c, parts in enumerate(self.waiting):
            if not parts:
                continue
            new = tuple(torch.cat(column) for column in zip(*parts, strict=True))
            if c in self.best:
                pairs = zip(self.best[c], new, strict=True)
                new = tuple(torch.cat(pair) for pair in pairs)
            rows, entropy, probability = new
            chosen = entropy.topk(min(self.size, len(entropy)), largest=False).indices
            self.best[c] = rows[chosen], entropy[chosen], probability[chosen]
            self.waiting[c] = []

    def solve(self) -> tuple[Tensor, Tensor]:
        self.cut()
        of_class = [self.best[c] for c in sorted(self.best)]
        rows = normalize(torch.cat([part[0] for part in of_class]), dim=-1)
        weight, bias = self._estimate(_banks(rows, torch.cat([part[2] for part in of_class])))
        scores = torch.mm(rows, weight) + bias
        probability = (scores * self.purify_scale).softmax(dim=-1)
        predicted = scores.argmax(dim=-1)
        kept: list[tuple[Tensor, Tensor]] = []
        for c in predicted.unique().tolist():
            mask = predicted == c
            members, q = rows[mask], probability[mask]
            threshold = q[:, c].mean().item() + q[:, c].std().item()
            good = (q[:, c] >= threshold).nonzero().squeeze(1)
            kept += [(members[i], q[i]) for i in good]
        rows = normalize(torch.stack([row for row, _ in kept]), dim=-1)
        return self._estimate(_banks(rows, torch.stack([q for _, q in kept])))

    def _estimate(self, banks: Banks) -> tuple[Tensor, Tensor]:
        n_classes, dim = self.text.shape
        vectors = torch.stack([row for c in banks for row, _ in banks[c]])
        label = torch.tensor([c for c in banks for _ in banks[c]])
        probability = torch.stack([p for c in banks for _, p in banks[c]])
        means = self.text.clone()
        for c in banks:
            weights = probability[label == c][:, c]
            means[c] = (weights[:, None] * vectors[label == c]).sum(dim=0) / weights.sum()
        spread = torch.cat([vectors[label == c] - means[c] for c in banks])
        precision = dim * torch.linalg.pinv(
            (len(spread) - 1) * spread.T.cov() + spread.T.cov().trace() * torch.eye(dim)
        )
        bias = math.log(1 / n_classes) - torch.einsum("nd,dc,nc->n", means, precision, means) / 2
        return precision @ means.T, bias


def published_scores(
    patches: Tensor,
    cls: Tensor,
    text: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    divisor: float,
    patch_scale: float,
    cls_scale: float,
    alpha: float,
) -> Tensor:
    """Scores of images, (B, C)."""
    n_images, n_patches, dim = patches.shape
    scores = (patches.view(-1, dim) @ weight + bias).view(n_images, n_patches, -1)
    scores -= scores.max(dim=-1, keepdim=True).values
    odds = torch.exp(scores / divisor)
    best = (odds / odds.sum(dim=-1, keepdim=True)).max(dim=1).values
    cls_scores = (cls @ text.T * cls_scale).softmax(dim=-1)
    return (1 - alpha) * cls_scores + alpha * (best * patch_scale).softmax(dim=-1)


def _banks(rows: Tensor, probability: Tensor) -> Banks:
    predicted = probability.argmax(dim=-1)
    banks: Banks = {}
    for c in predicted.unique().tolist():
        mask = predicted == c
        members, p = rows[mask], probability[mask]
        banks[c] = [(members[i], p[i]) for i in range(len(members))]
    return banks
