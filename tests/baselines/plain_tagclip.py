"""TagCLIP step by step and class by class, from the checkpoint's own tensors.

Nothing of the package is used. Formulas and quirks are those of the published inference: attention
masks are added (-100 off the diagonal, -1000 for hidden patches), contours are drawn on maps of
0..255, boxes end before the last row and column.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

PATCH, SIDE, HEAD = 16, 14, 64


@dataclass
class PlainTagged:
    scores: list[float]
    refined: Tensor
    candidates: list[int]


class PlainTagClip:
    """`state` is a checkpoint in OpenAI's layout, `text` (C + background, D) of unit length."""

    def __init__(self, state: dict[str, Tensor], text: Tensor, n_classes: int) -> None:
        self.state = {name: value.double() for name, value in state.items()}
        self.text, self.n_classes = text.double(), n_classes
        blocks = {name.split(".")[3] for name in state if name.startswith("visual.transformer")}
        self.depth = len(blocks)

    def run(self, pixels: Tensor, *, level: float = 0.5) -> PlainTagged:
        """`pixels` is (3, H, W)."""
        image = pixels.double()
        rows, columns = image.shape[1] // PATCH, image.shape[2] // PATCH
        n_patches = rows * columns
        tokens, maps = self.forward(image, last_mask="diagonal")
        probabilities = self.classify(tokens[1:])
        maps = [each[1:, 1:] for each in maps]
        affinity = sum(maps[8:11]) / 3
        above = [(each > each.mean()).tolist() for each in maps]
        for i in range(n_patches):
            for j in range(n_patches):
                if sum(each[i][j] for each in above) < 4:
                    affinity[i, j] = 0
        refined = affinity @ probabilities
        for c in range(len(self.text)):
            score_map = refined[:, c].clone()
            box = self.boxes(score_map.view(rows, columns))
            refined[:, c] = (affinity * box.view(1, -1)) @ probabilities[:, c]
        scores = [float(refined[:, c].max()) for c in range(self.n_classes)]
        low, high = float(refined.min()), float(refined.max())
        candidates = []
        for c in range(self.n_classes):
            if scores[c] > low + level * (high - low):
                again = self.see_again(image, refined[:, c].view(rows, columns), c)
                if again is not None:
                    candidates.append(c)
                    scores[c] = 0.5 * scores[c] + 0.5 * again
        return PlainTagged(scores, refined, candidates)

    def boxes(self, score_map: Tensor) -> Tensor:
        unit = (score_map - score_map.min()) / (score_map.max() - score_map.min())
        levels = (unit * 255).to(torch.uint8)
        threshold = int(unit.mean() * 255)
        return plain_boxes(levels > threshold)

    def see_again(self, image: Tensor, score_map: Tensor, c: int) -> float | None:
        unit = (score_map - score_map.min()) / (score_map.max() - score_map.min())
        mask = unit > 0.5
        cells = mask.nonzero().tolist()
        top, left = min(row for row, _ in cells), min(column for _, column in cells)
        bottom = min(max(row for row, _ in cells) + 1, mask.shape[0] - 1)
        right = min(max(column for _, column in cells) + 1, mask.shape[1] - 1)
        if top >= bottom or left >= right:
            return None
        inner = mask[top:bottom, left:right]
        crop = image[None, :, PATCH * top : PATCH * bottom, PATCH * left : PATCH * right]
        side = SIDE * PATCH
        crop = F.interpolate(crop, size=(side, side), mode="bilinear", align_corners=False)[0]
        seen = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        for row in range(SIDE):
            for column in range(SIDE):
                seen[row, column] = inner[
                    row * inner.shape[0] // SIDE, column * inner.shape[1] // SIDE
                ]
        mask = torch.zeros(SIDE * SIDE + 1, SIDE * SIDE + 1, dtype=torch.float64)
        mask[0, 1:][~seen.flatten()] = -1000
        tokens, _ = self.forward(crop, every_mask=mask)
        return float(self.classify(tokens[:1])[0, c])

    def classify(self, tokens: Tensor) -> Tensor:
        vectors = tokens / tokens.norm(dim=1, keepdim=True)
        return (self.state["logit_scale"].exp() * vectors @ self.text.T).softmax(dim=1)

    def forward(
        self, image: Tensor, *, last_mask: str | None = None, every_mask: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Projected tokens (1 + M, D) and each block's attention, its mask left out, per head mean."""
        state = self.state
        patches = F.conv2d(image[None], state["visual.conv1.weight"], stride=PATCH)
        grid = patches.shape[2:]
        position = state["visual.positional_embedding"]
        if tuple(grid) != (SIDE, SIDE):
            square = position[1:].T.reshape(1, -1, SIDE, SIDE)
            square = F.interpolate(square, size=grid, mode="bilinear", align_corners=False)
            position = torch.cat([position[:1], square.flatten(2)[0].T])
        x = torch.cat([state["visual.class_embedding"][None], patches.flatten(2)[0].T]) + position
        x = self.norm(x, "visual.ln_pre")
        maps = []
        for index in range(self.depth):
            name = f"visual.transformer.resblocks.{index}"
            mask = every_mask
            if last_mask == "diagonal" and index == self.depth - 1:
                mask = -100.0 * (1 - torch.eye(len(x), dtype=torch.float64))
            attended, weights = self.attention(self.norm(x, f"{name}.ln_1"), name, mask)
            maps.append(weights)
            x = x + attended
            hidden = F.linear(
                self.norm(x, f"{name}.ln_2"),
                state[f"{name}.mlp.c_fc.weight"],
                state[f"{name}.mlp.c_fc.bias"],
            )
            hidden = hidden * torch.sigmoid(1.702 * hidden)
            x = x + F.linear(
                hidden, state[f"{name}.mlp.c_proj.weight"], state[f"{name}.mlp.c_proj.bias"]
            )
        return self.norm(x, "visual.ln_post") @ state["visual.proj"], maps

    def attention(self, x: Tensor, name: str, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        state, width = self.state, x.shape[1]
        packed = F.linear(
            x, state[f"{name}.attn.in_proj_weight"], state[f"{name}.attn.in_proj_bias"]
        )
        q, k, v = packed.split(width, dim=1)
        outputs, total = [], torch.zeros(len(x), len(x), dtype=torch.float64)
        for start in range(0, width, HEAD):
            some = slice(start, start + HEAD)
            logits = q[:, some] @ k[:, some].T / HEAD**0.5
            total += logits.softmax(dim=1)
            if mask is not None:
                logits = logits + mask
            outputs.append(logits.softmax(dim=1) @ v[:, some])
        out = F.linear(
            torch.cat(outputs, dim=1),
            state[f"{name}.attn.out_proj.weight"],
            state[f"{name}.attn.out_proj.bias"],
        )
        return out, total / (width // HEAD)

    def norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.state[f"{name}.weight"], self.state[f"{name}.bias"]
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def plain_boxes(mask: Tensor) -> Tensor:
    """Flood every component, draw its box short of the last row and column."""
    rows, columns = mask.shape
    out, waiting = torch.zeros_like(mask), set(map(tuple, mask.nonzero().tolist()))
    while waiting:
        edge = [waiting.pop()]
        component = list(edge)
        while edge:
            row, column = edge.pop()
            for near in [(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]:
                if near in waiting:
                    waiting.remove(near)
                    edge.append(near)
                    component.append(near)
        ys, xs = zip(*component, strict=True)
        out[min(ys) : min(max(ys) + 1, rows - 1), min(xs) : min(max(xs) + 1, columns - 1)] = True
    return out
