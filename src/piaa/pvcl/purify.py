"""Stage II: keep the bank vectors that the stage-I classifier is surest of.

q_ic is the softmax of the stage-I scores; class c keeps the vectors with q_ic >= mean + standard
deviation of its group, and stage III weights them by q_ic.

- "own-bank" (paper): the group of c is its bank.
- "regroup" (published code): the group of c is every bank vector that scores highest for c, so
  vectors move between classes and a class can lose all.

A class that keeps nothing falls back to its text prototype in stage III.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from piaa.pvcl.gda import Classifier
from piaa.pvcl.members import Rows, scores_at_once


@dataclass(frozen=True)
class Purified:
    """What stage II keeps.

    Attributes:
        kept: (P,) int64, indices into the bank vectors, ascending.
        label: (P,) int64, class of each kept vector, after regrouping if there was any.
        weights: (P,) float32 in (0, 1], q of that class.
        moved: (C,) int64, bank vectors of each class that regrouping gave to another one.
    """

    kept: Tensor
    label: Tensor
    weights: Tensor
    moved: Tensor


def purify(
    vectors: Tensor | Rows,
    label: Tensor,
    classifier: Classifier,
    *,
    scale: float,
    mode: Literal["own-bank", "regroup"],
) -> Purified:
    """Stage II on the (N, D) float32 bank vectors with their (N,) classes.

    Args:
        scale: factor on the scores inside the softmax.
        mode: how vectors are grouped, see the module.
    """
    n_classes = len(classifier.bias)
    group, q = _posterior(vectors, label, classifier, scale, regroup=mode == "regroup")
    moved = torch.bincount(label[group != label], minlength=n_classes)
    threshold = _threshold(q, group, n_classes, single=math.nan if mode == "regroup" else 0.0)
    # A comparison with NaN is false, which is how a one-vector group comes to keep nothing.
    # A weight of zero (an underflowed softmax) can carry no mean.
    kept = ((q >= threshold[group]) & (q > 0)).nonzero().squeeze(1)
    return Purified(kept, group[kept], q[kept], moved)


def _posterior(
    vectors: Tensor | Rows, label: Tensor, classifier: Classifier, scale: float, *, regroup: bool
) -> tuple[Tensor, Tensor]:
    """Group of each vector (N,) and its softmax probability in that group (N,) float32."""
    group, q = label.clone(), torch.empty_like(label, dtype=torch.float32)
    step = scores_at_once(len(classifier.bias))
    for start in range(0, len(label), step):
        part = slice(start, start + step)
        scores = classifier.scores(vectors[part])
        if regroup:
            group[part] = scores.argmax(dim=1)
        # In float32 on purpose. At the published scales of 100 and 500 the softmax saturates at
        # exactly 1, and whether a class keeps its whole bank or nothing hangs on that.
        probability = (scores * scale).softmax(dim=1)
        q[part] = probability.gather(1, group[part, None]).squeeze(1)
    return group, q


def _threshold(q: Tensor, group: Tensor, n_classes: int, *, single: float) -> Tensor:
    """Mean plus unbiased standard deviation of q in each group, (C,) float64.

    `single` is the standard deviation given to a group of one. The published code divides 0 by 0
    there and gets NaN.
    """
    values = q.double()
    count = torch.bincount(group, minlength=n_classes).double()
    mean = values.new_zeros(n_classes).index_add_(0, group, values) / count
    squares = values.new_zeros(n_classes).index_add_(0, group, (values - mean[group]).square())
    deviation = (squares / (count - 1)).sqrt()
    return mean + torch.where(count == 1, single, deviation)
