"""Encoding against the published procedure, side by side on random weights of ViT-B/16 size.

    python benchmarks/encoding.py [--batch 8] [--rounds 5] [--onnx]

The published code runs CLIP's own modules (torch's MultiheadAttention on tokens in sequence-first
order, QuickGELU in three steps) once for the class vector and once more for the patches. Both passes are
written down here from the stock modules; only the front-end's tail is this package's, which
favors the published side, since its own works on one picture at a time. 8 bits: see
`piaa.encoders.int8`; the cosines are those with the float32 features. --onnx adds runtime="onnx".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn

from b16 import random_encoder
from piaa.encoders.clip import ClipEncoder
from piaa.encoders.frontends.base import LastBlock, Trunk
from piaa.encoders.vit import QUICK_GELU_SLOPE, Block

from machine import describe, side_by_side, times_as_fast

FLOAT_ROW = "encode: float32 against the published two passes"
INT8_ROW = "encode: int8 against the published two passes"


class StockBlock(nn.Module):
    """A block as CLIP's published model has it, with the weights of one of ours."""

    def __init__(self, block: Block) -> None:
        super().__init__()
        width = block.out.in_features
        self.norm1, self.norm2 = block.norm1, block.norm2
        self.attention = nn.MultiheadAttention(width, block.heads)
        mlp = block.mlp
        self.fc1 = nn.Linear(width, mlp.fc1.out_features)
        self.fc2 = nn.Linear(mlp.fc1.out_features, width)
        with torch.no_grad():
            self.attention.in_proj_weight.copy_(block.qkv.weight)
            self.attention.in_proj_bias.copy_(block.qkv.bias)
            self.attention.out_proj.load_state_dict(block.out.state_dict())
            self.fc1.weight.copy_(mlp.fc1.weight / QUICK_GELU_SLOPE)  # ours have it folded in
            self.fc1.bias.copy_(mlp.fc1.bias / QUICK_GELU_SLOPE)
            self.fc2.weight.copy_(mlp.fc2.weight * QUICK_GELU_SLOPE)
            self.fc2.bias.copy_(mlp.fc2.bias)

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        hidden = self.fc1(self.norm2(x))
        return x + self.fc2(hidden * torch.sigmoid(QUICK_GELU_SLOPE * hidden))


class PublishedEncoder:
    """Two full passes an image: class vector, then patches."""

    def __init__(self, encoder: ClipEncoder) -> None:
        self.tower, self.frontend = encoder.vision, encoder.frontend
        self.blocks = [StockBlock(block).eval() for block in self.tower.blocks]
        p = self.tower.patch
        self.patch_embed = nn.Conv2d(3, len(self.tower.cls_token), p, p, bias=False)
        with torch.no_grad():
            weight = self.tower.patch_embed.weight
            self.patch_embed.weight.copy_(weight.view(-1, 3, p, p))

    def __call__(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = self.embed(pixels)
        for block in self.blocks:
            x = block(x)
        cls = self.tower.finish(x.permute(1, 0, 2)[:, 0])
        x, grid = self.embed(pixels)
        trunk = Trunk(grid=grid, rotate=None)
        for index, block in enumerate(self.blocks[:-1]):
            x = block(x)
            if index in self.frontend.tapped_states:
                trunk.states[index] = x.permute(1, 0, 2)
        last = LastBlock(self.tower.blocks[-1], x.permute(1, 0, 2), None)
        patches = self.tower.finish(self.frontend.patch_tokens(trunk, last))
        unit = nn.functional.normalize
        return unit(cls, dim=-1), unit(patches, dim=-1)

    def embed(self, pixels: Tensor) -> tuple[Tensor, tuple[int, int]]:
        cells = self.patch_embed(pixels)
        grid = cells.shape[2], cells.shape[3]
        tokens = cells.flatten(2).permute(0, 2, 1)
        cls = self.tower.cls_token.expand(len(tokens), 1, -1)
        x = torch.cat([cls, tokens], dim=1) + self.tower.positions
        return self.tower.pre_norm(x).permute(1, 0, 2), grid


def ratios() -> dict[str, float]:
    exact, rough = random_encoder(), random_encoder(precision="int8")
    published, pixels = PublishedEncoder(exact), torch.randn(8, 3, 224, 224)
    with torch.no_grad():
        return {
            row: times_as_fast(
                lambda e=encoder: e.encode_pixels(pixels), lambda: published(pixels), rounds=5
            )
            for row, encoder in ((FLOAT_ROW, exact), (INT8_ROW, rough))
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--onnx", action="store_true", help="also runtime='onnx'; exports for minutes"
    )
    options = parser.parse_args()
    ours = {"float32": random_encoder(), "int8": random_encoder(precision="int8")}
    if options.onnx:
        ours["float32, onnx"] = random_encoder(runtime="onnx")
        ours["int8, onnx"] = random_encoder(precision="int8", runtime="onnx")
    published, pixels = PublishedEncoder(ours["float32"]), torch.randn(options.batch, 3, 224, 224)
    with torch.no_grad():
        wanted = published(pixels)
        runs: list[Callable[[], object]] = [lambda: published(pixels)]
        runs += [lambda e=encoder: e.encode_pixels(pixels) for encoder in ours.values()]
        seconds = side_by_side(*runs, rounds=options.rounds)
        print(describe())
        print(f"ViT-B/16 size, random weights, sc-clip, batch {options.batch}")
        print(f"{'':26}{'ms/image':>10}{'ratio':>8}{'cosine of patches, least':>28}{'of cls':>10}")
        print(f"{'published, two passes':26}{1e3 * seconds[0] / options.batch:10.1f}{1:8.2f}")
        for (name, encoder), each in zip(ours.items(), seconds[1:], strict=True):
            features = encoder.encode_pixels(pixels)
            cls, patches = (
                float((a * b).sum(-1).min())
                for a, b in zip((features.cls, features.patches), wanted, strict=True)
            )
            line = f"{name:26}{1e3 * each / options.batch:10.1f}{seconds[0] / each:8.2f}"
            print(f"{line}{patches:28.6f}{cls:10.6f}")


if __name__ == "__main__":
    main()
