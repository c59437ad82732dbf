"""Outlier patches of SC-CLIP: local outlier factor and repair from neighbors, batched.

Everything here is float32 whatever the model's precision: squared distances between tokens of norm
above 256 overflow float16.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def neighbor_distances(tokens: Tensor, neighbors: int) -> tuple[Tensor, Tensor]:
    """Squared distances (B, M, k), ascending, and indices (B, M, k) of each token's k nearest others.

    tokens is (B, M, W). Distances come from the Gram matrix, so memory is M x M per image. Tokens
    are centered first: the massive components that all tokens share would otherwise cancel badly.
    """
    x = tokens.float()
    x = x - x.mean(dim=1, keepdim=True)
    norms = x.square().sum(-1)
    squared = norms[:, :, None] + norms[:, None, :] - 2 * (x @ x.transpose(1, 2))
    # Rounding must neither make a distance negative nor let a twin push a token out of first place.
    itself = torch.eye(x.shape[1], device=x.device, dtype=torch.bool)
    squared = squared.clamp_min_(0).masked_fill_(itself, -1)
    near = squared.topk(min(neighbors, x.shape[1] - 1) + 1, dim=-1, largest=False)
    return near.values[..., 1:], near.indices[..., 1:]


def local_outlier_factor(tokens: Tensor, neighbors: int, *, textbook: bool) -> Tensor:
    """LOF of each token, (B, M) float32, about 1 for a token like its neighbors.

    The published SC-CLIP code takes the reach distance of i from j as max(d_ij, kdist_i), which is
    always kdist_i, so its score is the mean of kdist_i / kdist_j over the neighbors j. The textbook
    (Breunig et al., 2000) takes max(d_ij, kdist_j). Both on squared distances, as published.
    """
    distances, indices = neighbor_distances(tokens, neighbors)
    batch, count, k = distances.shape
    tiny = 1e-30  # identical tokens: 0 / 0 would be NaN, this makes it 1
    k_distance = distances[..., -1].clamp_min(tiny)
    flat = indices.flatten(1)
    of_neighbors = k_distance.gather(1, flat).view(batch, count, k)
    if not textbook:
        return (k_distance[..., None] / of_neighbors).mean(-1)
    density = 1 / torch.maximum(distances, of_neighbors).mean(-1)
    return density.gather(1, flat).view(batch, count, k).mean(-1) / density


def find_outliers(
    tokens: Tensor, *, neighbors: int, contamination: float, textbook: bool
) -> Tensor:
    """Mask (B, M) of the tokens whose LOF is above its own image's (1 - contamination) quantile."""
    factor = local_outlier_factor(tokens, neighbors, textbook=textbook)
    return factor > factor.quantile(1 - contamination, dim=1, keepdim=True)


def repair(outliers: Tensor, grid: tuple[int, int]) -> Tensor:
    """Matrix (B, M, M) that replaces each outlier by the mean of its sound neighbors on the grid.

    outliers is (B, M) bool. Rows of sound tokens, and of outliers among outliers only, are rows of
    the identity, so `repair @ tokens` leaves those tokens as they are, to the last bit.
    """
    rows, columns = (torch.arange(n, device=outliers.device) for n in grid)
    near_rows = (rows[:, None] - rows[None]).abs() <= 1
    near_columns = (columns[:, None] - columns[None]).abs() <= 1
    count = grid[0] * grid[1]
    identity = torch.eye(count, device=outliers.device, dtype=torch.bool)
    near = near_rows[:, None, :, None] & near_columns[None, :, None, :]
    adjacent = near.reshape(count, count) & ~identity
    sound = adjacent & ~outliers[:, None, :]
    usable = outliers & sound.any(-1)
    weights = torch.where(usable[..., None], sound.float(), identity.float())
    return F.normalize(weights, p=1, dim=-1)
