"""PAA: patch scores and the global feature to image scores.

`aggregate` is the form of paper and published code: a softmax over classes in each patch, the
maximum over patches, a second softmax over classes, and a convex sum with the global softmax.
`patch_log_odds` and `global_log_odds` are the branches of the form without constants per data set,
in which they are weighted and added.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from piaa.checks import unit_rows
from piaa.config import Config
from piaa.errors import InputError
from piaa.pvcl.gda import Classifier

_SCORES_AT_ONCE = 2**20
# A product of fewer rows reads the weights of very many classes for next to no work.
_LEAST_ROWS_AT_ONCE = 98
# The largest log-probability below 0 that float32 tells from 1: log-odds end at about 16.6.
_LARGEST_LOG = -(2.0**-24)


@dataclass(frozen=True)
class Aggregated:
    """Scores of images, each (B, C) float32 in [0, 1] and summing to 1 over the classes.

    Attributes:
        patch: S_patch, from the maxima over patches.
        cls: S_cls, from the global feature.
        fused: alpha * patch + (1 - alpha) * cls.
    """

    patch: Tensor
    cls: Tensor
    fused: Tensor


def aggregate(
    patches: Tensor, cls: Tensor, text: Tensor, classifier: Classifier, config: Config
) -> Aggregated:
    """S_f = alpha * softmax(patch_scale * max_i p_i) + (1 - alpha) * softmax(cls_scale * cosines).

    p_i = softmax(scores of patch i / score_divisor). With a single class every score is 1.

    Args:
        patches: (B, M, D) unit patch features.
        cls: (B, D) unit global features of the same images.
        text: (C, D) unit text prototypes.
        classifier: of D features and C classes.
        config: must hold numbers for score_divisor, patch_scale, cls_scale and alpha.
    """
    divisor, patch_scale, cls_scale, alpha = _numbers(config)
    text = unit_rows("text", text, ndim=2)
    if classifier.weight.shape != text.T.shape or classifier.bias.shape != text.shape[:1]:
        raise InputError(
            f"The classifier's weight {tuple(classifier.weight.shape)} and bias "
            f"{tuple(classifier.bias.shape)} do not fit {text.shape[0]} text prototypes of "
            f"{text.shape[1]} numbers; learn it with the same text prototypes."
        )
    cls = unit_rows("cls", cls, ndim=2, width=text.shape[1])
    if len(cls) != len(patches):
        raise InputError(f"cls is of {len(cls)} images and patches of {len(patches)}.")
    best = max_log_probability(
        patches, classifier.weight, bias=classifier.bias, scale=1 / divisor
    ).exp()
    patch_scores = (best * patch_scale).softmax(dim=1)
    cls_scores = (cls @ text.T * cls_scale).softmax(dim=1)
    fused = alpha * patch_scores + (1 - alpha) * cls_scores
    return Aggregated(patch_scores, cls_scores, fused)


def patch_log_odds(
    patches: Tensor, weight: Tensor, *, bias: Tensor | None = None, scale: float
) -> Tensor:
    """Log-odds of each class in its best patch, (B, C) float32 within about ±16.6 above.

    Args:
        patches: (B, M, D) unit patch features.
        weight: (D, C): a classifier's, or the transposed text prototypes.
        bias: (C,) of the classifier; `None` for text.
        scale: factor on the scores inside the softmax.
    """
    return log_odds(max_log_probability(patches, weight, bias=bias, scale=scale))


def global_log_odds(cls: Tensor, text: Tensor, *, scale: float) -> Tensor:
    """Log-odds of each class from the global feature, (B, C) float32.

    Args:
        cls: (B, D) unit global features.
        text: (C, D) unit text prototypes.
    """
    text = unit_rows("text", text, ndim=2)
    cls = unit_rows("cls", cls, ndim=2, width=text.shape[1])
    return log_odds((cls @ text.T * scale).log_softmax(dim=1))


def log_odds(log_probability: Tensor) -> Tensor:
    """log p - log(1 - p) of log p <= 0, finite for p = 1 (where float32 ends, at about 16.6)."""
    bounded = log_probability.clamp(max=_LARGEST_LOG)
    return bounded - torch.log(-torch.expm1(bounded))


def max_log_probability(
    patches: Tensor, weight: Tensor, *, bias: Tensor | None = None, scale: float
) -> Tensor:
    """max over patches of log softmax(scale * (x @ weight + bias)), (B, C) float32, at most 0.

    Works through a bounded number of scores at a time, so that memory does not grow with
    patches times classes. Arguments as in `patch_log_odds`.
    """
    patches = unit_rows("patches", patches, ndim=3, width=len(weight))
    n_images, n_cells, _ = patches.shape
    n_classes = weight.shape[1]
    weight = weight.detach()
    offset = weight.new_zeros(n_classes) if bias is None else (bias * scale).detach()
    at_once = max(_LEAST_ROWS_AT_ONCE, _SCORES_AT_ONCE // n_classes)
    cells, images = min(n_cells, at_once), max(1, at_once // n_cells)
    best = patches.new_full((n_images, n_classes), -torch.inf)
    # Fresh memory for each part would cost as much as the softmax does.
    scores = patches.new_empty(min(images, n_images) * cells, n_classes)
    logs = torch.empty_like(scores)
    for first in range(0, n_images, images):
        some = slice(first, first + images)
        for cell in range(0, n_cells, cells):
            part = patches[some, cell : cell + cells]
            flat = part.reshape(-1, len(weight))
            rows = slice(len(flat))
            # Scaled in the product: a scaled copy of many classes' weights costs as much as one image.
            torch.addmm(offset, flat, weight, alpha=scale, out=scores[rows])
            torch.log_softmax(scores[rows], dim=1, out=logs[rows])
            highest = logs[rows].view(*part.shape[:2], n_classes).amax(dim=1)
            best[some] = torch.maximum(best[some], highest)
    return best


def _numbers(config: Config) -> tuple[float, float, float, float]:
    values = (config.score_divisor, config.patch_scale, config.cls_scale, config.alpha)
    divisor, patch_scale, cls_scale, alpha = values
    if divisor is None or patch_scale is None or cls_scale is None or alpha is None:
        names = ("score_divisor", "patch_scale", "cls_scale", "alpha")
        open_names = [n for n, v in zip(names, values, strict=True) if v is None]
        raise InputError(
            f"The config leaves {', '.join(open_names)} to be matched to the data, and aggregate "
            "needs numbers: use Config.paper(), Config.reference(...) or dataclasses.replace, or "
            "weigh patch_log_odds and global_log_odds yourself."
        )
    return divisor, patch_scale, cls_scale, alpha
