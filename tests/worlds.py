"""Synthetic patch features with a modality gap, from a seed.

With its defaults `patch_world` rebuilds the input of tests/data/pvcl_seed3.npz, the record of the
published learning script on CPU in float32 (seed 3, 300 images, 49 patches, 32 dimensions, 7
classes, K = 64). Drawn from numpy's RandomState, whose stream is frozen: do not reorder the draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize


class World(NamedTuple):
    """Unit features: patches (n, M, D), cls (n, D), text (C, D); labels (n, C) in {0, 1}."""

    patches: Tensor
    cls: Tensor
    text: Tensor
    labels: Tensor


def patch_world(
    seed: int,
    n_images: int,
    n_patches: int,
    dim: int,
    n_classes: int,
    *,
    text_strength: float = 0.75,
    class_offset: float = 0.45,
    patch_noise: float = 0.55,
    most_labels: int = 3,
) -> World:
    rng = np.random.RandomState(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    text = normal(n_classes, dim)
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    gap = normal(dim)
    gap /= np.linalg.norm(gap)
    centers = text_strength * text + class_offset * normal(n_classes, dim) / dim**0.5
    background = normal(4, dim) / dim**0.5
    patches = np.zeros((n_images, n_patches, dim), np.float32)
    labels = np.zeros((n_images, n_classes), np.int64)
    for i in range(n_images):
        k = rng.randint(1, most_labels + 1)
        present = rng.choice(n_classes, k, replace=False)
        labels[i, present] = 1
        kind = rng.randint(0, 2 * k + 2, n_patches)
        for p in range(n_patches):
            is_object = kind[p] < k + 1
            base = centers[present[kind[p] % k]] if is_object else 0.5 * background[rng.randint(4)]
            patches[i, p] = base + 0.9 * gap + patch_noise * normal(dim) / dim**0.5
    share = labels.astype(np.float32) @ centers / np.maximum(labels.sum(1, keepdims=True), 1)
    cls = 0.6 * share + 0.9 * gap + 0.3 * normal(n_images, dim) / dim**0.5
    return World(
        normalize(torch.from_numpy(patches), dim=-1),
        normalize(torch.from_numpy(cls.astype(np.float32)), dim=-1),
        torch.from_numpy(text),
        torch.from_numpy(labels),
    )


def class_places(
    rng: np.random.RandomState, n_classes: int, dim: int, text: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a varied world draws first: text prototypes (C, D), modality gap (D,), class centers (C, D)."""
    prototypes = rng.standard_normal((n_classes, dim)).astype(np.float32)
    prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
    gap = rng.standard_normal(dim).astype(np.float32)
    gap /= np.linalg.norm(gap)
    offset = (0.45**2 + 0.75**2 - text**2) ** 0.5
    spread = rng.standard_normal((n_classes, dim)).astype(np.float32) / dim**0.5
    return prototypes, gap, text * prototypes + offset * spread


def varied_world(
    seed: int,
    n_images: int,
    *,
    n_classes: int = 20,
    n_patches: int = 36,
    dim: int = 64,
    text: float = 0.75,
    cls: float = 0.6,
    cls_noise: float = 0.3,
    labels: tuple[int, int] = (1, 3),
    absent: int = 0,
    n_without: int = 0,
    patch_noise: float = 0.55,
) -> World:
    """The same kind of world, drawn faster, with every strength a parameter.

    Args:
        text: how much of a class's place the text prototypes know, 0 to 0.87; the rest is noise.
        cls, cls_noise: strength of the labels and of the noise in the global vector.
        labels: fewest and most labels an image.
        absent: the last so many classes are in none of the first `n_without` images.
        patch_noise: of single patches; two classes are about 1.2 apart.
    """
    rng = np.random.RandomState(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    prototypes, gap, centers = class_places(rng, n_classes, dim, text)
    background = normal(4, dim) / dim**0.5
    truth = np.zeros((n_images, n_classes), np.int64)
    patches = np.zeros((n_images, n_patches, dim), np.float32)
    for i in range(n_images):
        possible = n_classes - absent if i < n_without else n_classes
        k = min(possible, rng.randint(labels[0], labels[1] + 1))
        present = rng.choice(possible, k, replace=False)
        truth[i, present] = 1
        kind = rng.randint(0, 2 * k + 2, n_patches)
        base = np.where(
            (kind < k + 1)[:, None],
            centers[present[kind % k]],
            0.5 * background[rng.randint(4, size=n_patches)],
        )
        patches[i] = base + 0.9 * gap + patch_noise * normal(n_patches, dim) / dim**0.5
    share = truth @ centers / np.maximum(truth.sum(1, keepdims=True), 1)
    whole = cls * share + 0.9 * gap + cls_noise * normal(n_images, dim) / dim**0.5
    return World(
        normalize(torch.from_numpy(patches), dim=-1),
        normalize(torch.from_numpy(whole.astype(np.float32)), dim=-1),
        torch.from_numpy(prototypes),
        torch.from_numpy(truth),
    )


def split_scores(n: int, n_classes: int, *, seed: int, split: float = 4.0) -> Tensor:
    """A branch's (n, n_classes): each image holds one class, which stands `split` deviations out."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, n_classes, generator=generator)
    holds = torch.nn.functional.one_hot(torch.arange(n) % n_classes, n_classes)
    return noise + split * holds
