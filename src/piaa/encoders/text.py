"""The text transformer of CLIP: token ids in, one vector per text out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from piaa.encoders.architecture import Architecture
from piaa.encoders.vit import Block, Mlp


class TextTower(nn.Module):
    """Causal transformer; the vector of the end token, projected, is the text's."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        shape = architecture.text
        self.token_embedding = nn.Embedding(architecture.vocabulary, shape.width)
        self.positions = nn.Parameter(torch.empty(architecture.context_length, shape.width))
        self.blocks = nn.ModuleList(
            Block(shape, Mlp(shape.width, shape.hidden, architecture.activation))
            for _ in range(shape.depth)
        )
        self.final_norm = nn.LayerNorm(shape.width, shape.norm_eps)
        self.projection = nn.Linear(shape.width, architecture.embed_dim, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids (N, L) int64, L <= context length -> (N, D), not yet of unit length.

        The end token has the highest id of the vocabulary, so argmax finds the first one whatever
        a tokenizer pads with. Attention is causal, so nothing behind the last end token of the
        batch can matter: it is not computed.
        """
        end = tokens.argmax(dim=1)
        used = int(end.max()) + 1
        x = self.token_embedding(tokens[:, :used]) + self.positions[:used]
        for block in self.blocks:
            x, _ = block(x, causal=True)
        ends = x[torch.arange(len(x), device=x.device), end]
        return self.projection(self.final_norm(ends))  # type: ignore[no-any-return]
