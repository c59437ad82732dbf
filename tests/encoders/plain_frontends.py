"""Front-ends written out slowly: one image, loops over tokens, whole attention matrices.

The oracle for what the recorded arrays do not cover: EVA-02 blocks, other grids, the extra
front-ends. It takes weights from an encoder's modules and nothing else.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from piaa.encoders.clip import ClipEncoder


class PlainTower:
    """All block outputs of one image (3, H, W), and each front-end's patch tokens."""

    def __init__(self, encoder: ClipEncoder, image: Tensor) -> None:
        self.tower = encoder.vision
        self.eva = encoder.architecture.family == "eva02"
        self.rotary = getattr(encoder.frontend, "rotary", True)
        patch = self.tower.patch
        self.rows, self.columns = image.shape[1] // patch, image.shape[2] // patch
        self.turns: dict[int, Tensor] = {}
        x, _ = self.tower.embed(image[None])
        self.inputs = []  # input of each block
        x = x[0]
        for block in self.tower.blocks:
            self.inputs.append(x)
            q, k, v = self.heads(block, x)
            x = x + self.merge(
                block, [softmax(q_h @ k_h.T) @ v_h for q_h, k_h, v_h in zip(q, k, v, strict=True)]
            )
            x = x + block.mlp(block.norm2(x))
        self.cls = x[0]

    def heads(self, block, x: Tensor, rotate: bool = True):
        """Lists over heads of q (scaled), k, v for tokens x (N, W)."""
        q, k, v = block.qkv(block.norm1(x)).chunk(3, dim=-1)
        size = q.shape[-1] // block.heads
        split = [list(part.split(size, dim=-1)) for part in (q, k, v)]
        if self.eva and rotate:
            split[0] = [self.rotate(h) for h in split[0]]
            split[1] = [self.rotate(h) for h in split[1]]
        return [h / math.sqrt(size) for h in split[0]], split[1], split[2]

    def rotate(self, head: Tensor) -> Tensor:
        """2-D rotary positions as multiplication of complex numbers."""
        pairs = torch.view_as_complex(head.unflatten(1, (-1, 2)).contiguous())
        if len(head) not in self.turns:
            angles = self.angles(len(head), head.shape[1] // 4)
            self.turns[len(head)] = torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(pairs * self.turns[len(head)]).flatten(1)

    def angles(self, length: int, bands: int) -> Tensor:
        angles = torch.zeros(length, 2 * bands)
        first = length - self.rows * self.columns
        for cell in range(self.rows * self.columns):
            row, column = divmod(cell, self.columns)
            for band in range(bands):
                frequency = 16 / 10000 ** (band / bands)
                angles[first + cell, band] = row / self.rows * frequency
                angles[first + cell, bands + band] = column / self.columns * frequency
        return angles

    def merge(self, block, heads: list[Tensor]) -> Tensor:
        joined = torch.cat(heads, dim=-1)
        return block.out(block.inner_norm(joined) if self.eva else joined)

    def similar(self, block, x: Tensor):
        """q, k, v for comparing like with like: scaled once, rotated if the option says so."""
        q, k, v = self.heads(block, x, rotate=self.rotary)
        scale = math.sqrt(v[0].shape[-1])
        return [h * scale for h in q], k, v, 1 / scale

    def tokens(self, frontend) -> Tensor:
        """Patch tokens (M, W) before the final norm."""
        last, x = self.tower.blocks[-1], self.inputs[-1]
        name = frontend.name
        if name == "maskclip":
            _, _, v = self.heads(last, x)
            y = self.merge(last, v)
            if frontend.residual:
                y = x + y
                y = y + last.mlp(last.norm2(y))
            return y[1:]
        if name == "sc-clip":
            return self.sc_clip(frontend)
        q, k, v, s = self.similar(last, x)
        if name == "clearclip":
            return self.merge(last, [softmax(a @ a.T * s) @ c for a, c in zip(q, v, strict=True)])[
                1:
            ]
        if name == "naclip":
            bias = torch.zeros(len(x), len(x))
            for i in range(1, len(x)):
                for j in range(1, len(x)):
                    dy = (i - 1) // self.columns - (j - 1) // self.columns
                    dx = (i - 1) % self.columns - (j - 1) % self.columns
                    bias[i, j] = math.exp(-(dy * dy + dx * dx) / (2 * frontend.std**2))
            return self.merge(
                last, [softmax(b @ b.T * s + bias) @ c for b, c in zip(k, v, strict=True)]
            )[1:]
        attention = [softmax(a @ a.T * s) + softmax(b @ b.T * s) for a, b in zip(q, k, strict=True)]
        if name == "itaclip":
            middle = [torch.zeros_like(a) for a in attention]
            for number in frontend.middle:
                q_m, k_m, _, _ = self.similar(
                    self.tower.blocks[number - 1], self.inputs[number - 1]
                )
                for h, (a, b) in enumerate(zip(q_m, k_m, strict=True)):
                    middle[h] += (softmax(a @ a.T * s) + softmax(b @ b.T * s)) / len(
                        frontend.middle
                    )
            attention = [0.5 * a + 0.5 * m for a, m in zip(attention, middle, strict=True)]
        y = x + self.merge(last, [a @ c for a, c in zip(attention, v, strict=True)])
        if name == "sclip":
            y = y + last.mlp(last.norm2(y))
        return y[1:]

    def sc_clip(self, o) -> Tensor:
        outputs = self.inputs[1:]  # output of block l is outputs[l]
        last_patches = outputs[-1][1:]
        outliers = plain_outliers(last_patches, o.neighbors, o.contamination, o.lof == "textbook")
        x = self.fill(last_patches, outliers)
        middle = plain_cosines(self.fill(outputs[o.pre][1:], outliers))
        x = plain_smooth(middle, o.floor) @ x
        y = self.sc_attend(x, outputs[-1][0], middle, o)
        smooth = plain_smooth(plain_cosines(outputs[o.post][1:]), o.floor)
        levels = sum(outputs[level] for level in range(*o.multi))
        return smooth @ y + smooth @ self.sc_attend(levels[1:], levels[0], middle, o)

    def sc_attend(self, patches: Tensor, cls: Tensor, middle: Tensor, o) -> Tensor:
        block = self.tower.blocks[-1]
        _, k, v, s = self.similar(block, patches)
        excess = 3 * (middle - middle.mean())
        excess[excess < 0] = -math.inf
        steer = softmax(excess)
        attended = [0.5 * (steer + softmax(b @ b.T * s)) @ c for b, c in zip(k, v, strict=True)]
        return self.merge(block, attended) + o.cls_residual * cls

    def fill(self, patches: Tensor, outliers: list[int]) -> Tensor:
        out = patches.clone()
        for index in outliers:
            row, column = divmod(index, self.columns)
            near = [
                r * self.columns + c
                for r in range(max(0, row - 1), min(self.rows, row + 2))
                for c in range(max(0, column - 1), min(self.columns, column + 2))
            ]
            sound = [n for n in near if n not in outliers]
            if sound:
                out[index] = patches[sound].mean(0)
        return out


def softmax(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


def plain_cosines(tokens: Tensor) -> Tensor:
    unit = tokens / tokens.norm(dim=-1, keepdim=True)
    return unit @ unit.T


def plain_smooth(similarity: Tensor, floor: float) -> Tensor:
    kept = torch.where(similarity < floor, 0.0, similarity)
    return kept / kept.sum(-1, keepdim=True)


def plain_lof(tokens: Tensor, neighbors: int, textbook: bool) -> list[float]:
    """Token by token, on squared distances from differences in float64."""
    x = tokens.double()
    n = len(x)
    k = min(neighbors, n - 1)
    near, distance, k_distance = [], [], []
    for i in range(n):
        d = ((x - x[i]) ** 2).sum(-1)
        order = sorted((j for j in range(n) if j != i), key=lambda j: d[j].item())[:k]
        near.append(order)
        distance.append([d[j].item() for j in order])
        k_distance.append(distance[-1][-1])
    density = []
    for i in range(n):
        reach = [
            max(d, k_distance[j] if textbook else k_distance[i])
            for j, d in zip(near[i], distance[i], strict=True)
        ]
        density.append(k / sum(reach))
    return [sum(density[j] for j in near[i]) / k / density[i] for i in range(n)]


def plain_outliers(
    tokens: Tensor, neighbors: int, contamination: float, textbook: bool
) -> list[int]:
    lof = torch.tensor(plain_lof(tokens, neighbors, textbook), dtype=torch.float64)
    return (lof > lof.quantile(1 - contamination)).nonzero().flatten().tolist()
