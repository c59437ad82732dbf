"""A classifier of the global vector, learnt from what the other branches say of unlabelled images.

Patches tell where a class is; the global vector tells what kind of picture it is in. Text alone reads it
badly. With the fused evidence as a teacher, linear discriminant analysis finds for every class the direction
of the global vectors that goes with it: scenes and company that no prompt names.
"""

from __future__ import annotations

import torch
from torch import Tensor

from piaa.auto.company import found_by
from piaa.pvcl import Classifier
from piaa.thresholds import estimate_thresholds

SHRINKAGE = 3.0  # of the covariance, as in piaa.pvcl.gda


def taught(evidence: Tensor) -> Tensor:
    """How far each image holds each class, (n, C) in (0, 1), by evidence (n, C) of unlabelled images."""
    return found_by(evidence, estimate_thresholds(evidence))


def learn_whole(cls: Tensor, holds: Tensor, like: Tensor) -> Classifier:
    """Discriminant of global vectors (n, D) that hold each class by holds (n, C) in (0, 1).

    Its scores have, class by class, the mean and spread of `like` (n, C), so that they can be added up.
    """
    vectors, holds = cls.double(), holds.double()
    n, dim = vectors.shape
    total = vectors.sum(0)
    inside, weight = holds.T @ vectors, holds.sum(0)[:, None].clamp(1e-6, n - 1e-6)
    difference = inside / weight - (total - inside) / (n - weight)
    centered = vectors - total / n
    covariance = centered.T @ centered / n
    spread = covariance.trace()
    identity = torch.eye(dim, dtype=torch.float64, device=cls.device)
    ridge = (SHRINKAGE * spread / n).clamp_min(1e-12)
    factor = torch.linalg.cholesky(covariance + ridge * identity)
    direction = torch.cholesky_solve(difference.T, factor)
    scores = vectors @ direction
    like = like.to(cls.device).double()
    deviation = scores.std(0, unbiased=False).clamp_min(1e-12)
    gain = like.std(0, unbiased=False) / deviation
    bias = like.mean(0) - gain * scores.mean(0)
    return Classifier((direction * gain).float().contiguous(), bias.float())
