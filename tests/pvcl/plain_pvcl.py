"""PVCL written out slowly, in float64 and with loops, from its formulas: the oracle of the tests."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from piaa.config import Config


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def banks(
    patches: Tensor, text: Tensor, image_ids: list[int], *, size: int, scale: float | None
) -> list[list[tuple[float, int, int, np.ndarray]]]:
    """For each class, its `size` best as (key, image, cell, vector), best first."""
    words = text.double().numpy()
    out: list[list[tuple[float, int, int, np.ndarray]]] = [[] for _ in words]
    for image, rows in zip(image_ids, patches.double().numpy(), strict=True):
        for cell, x in enumerate(rows):
            cosines = words @ x
            if scale is None:
                *_, second, best = np.sort(cosines) if len(cosines) > 1 else (0.0, *cosines)
                key = (cosines.mean() + second) / 2 - best
            else:
                p = softmax(scale * cosines)
                key = -(p * np.log(p)).sum()
            out[int(cosines.argmax())].append((key, image, cell, x))
    return [sorted(members, key=lambda m: m[:3])[:size] for members in out]


def gda(
    groups: list[list[tuple[np.ndarray, float]]], text: np.ndarray, config: Config
) -> tuple[np.ndarray, np.ndarray]:
    """Groups of (vector, weight) to (W, b), with an explicit inverse."""
    dim = text.shape[1]
    means, centered = text.copy(), []
    for c, members in enumerate(groups):
        if members:
            total = sum(w for _, w in members)
            means[c] = sum(w * x for x, w in members) / total
            centered += [x - means[c] for x, _ in members]
    n, stacked = len(centered), np.array(centered)
    if config.covariance == "sample":
        cov = np.cov(stacked.T, ddof=1)
    else:
        cov = sum(np.outer(v, v) for v in stacked) / n
    shrunk = (n - 1) * cov + config.shrinkage * np.trace(cov) * np.eye(dim)
    weight = dim * np.linalg.inv(shrunk) @ means.T
    bias = -0.5 * np.array([means[c] @ weight[:, c] for c in range(len(text))])
    return weight, bias - (np.log(len(text)) if config.log_prior else 0.0)


def learn(patches: Tensor, text: Tensor, config: Config) -> tuple[np.ndarray, np.ndarray]:
    words = text.double().numpy()
    n_images, n_cells, _ = patches.shape
    size = config.bank_size
    if config.bank_fraction is not None:
        wanted = int(config.bank_fraction * n_images * n_cells / len(words))
        size = min(max(wanted, config.bank_floor), config.bank_size)
    chosen = banks(patches, text, list(range(n_images)), size=size, scale=config.text_scale)
    groups = []
    for c, members in enumerate(chosen):
        groups.append([])
        for *_, x in members:
            weighted = config.bank_means == "probability"
            p = softmax(config.text_scale * (words @ x))[c] if weighted else 1.0
            groups[-1].append((x, p))
    weight, bias = gda(groups, words, config)
    if config.purify in ("none", "auto"):
        return weight, bias
    regrouped: list[list[tuple[np.ndarray, float]]] = [[] for _ in words]
    for c, members in enumerate(groups):
        for x, _ in members:
            y = x @ weight + bias
            target = int(y.argmax()) if config.purify == "regroup" else c
            regrouped[target].append((x, softmax(config.purify_scale * y)[target]))
    kept = []
    for members in regrouped:
        q = np.array([w for _, w in members])
        spread = q.std(ddof=1) if len(q) > 1 else (np.inf if config.purify == "regroup" else 0)
        kept.append([m for m in members if m[1] >= q.mean() + spread])
    return gda(kept, words, config)
