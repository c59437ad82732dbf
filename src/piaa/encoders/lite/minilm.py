"""A sentence -> a unit vector: all-MiniLM-L6-v2, a BERT of six blocks with mean pooling.

BERT: Devlin et al. 2019, arXiv:1810.04805. MiniLM: Wang et al. 2020, arXiv:2002.10957.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from piaa.errors import CheckpointError

MOST_TOKENS = 256  # the length the sentence model was trained with; longer texts are cut
_BATCH = 128


class _Block(nn.Module):
    def __init__(self, width: int, hidden: int, heads: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, eps=eps)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = self.attention_norm(x + self.out(mixed.transpose(1, 2).reshape(x.shape)))
        normed: Tensor = self.norm(x + self.down(F.gelu(self.up(x))))
        return normed


class MiniLm(nn.Module):
    """The text model, filled by `load_minilm`."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        vocabulary: int,
        positions: int,
        width: int,
        hidden: int,
        depth: int,
        heads: int,
        eps: float,
    ) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.types = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=eps)
        self.blocks = nn.ModuleList(_Block(width, hidden, heads, eps) for _ in range(depth))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors (N, width) of token ids (N, length) int64 with mask (N, length) bool."""
        x = self.words(ids) + self.positions.weight[: ids.shape[1]] + self.types.weight[0]
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, mask)
        shown = mask[:, :, None]
        return F.normalize((x * shown).sum(1) / shown.sum(1), dim=-1)

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> Tensor:
        """Unit vectors (N, width) float32 of texts, in their order."""
        rows: list[list[int]] = [row.ids for row in self._tokenizer.encode_batch(list(texts))]
        vectors = torch.empty(len(rows), self.norm.normalized_shape[0])
        # Rows of like length go together: padding costs as much as words.
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            length = len(rows[chosen[-1]])
            ids = torch.zeros(len(chosen), length, dtype=torch.int64)
            mask = torch.zeros(len(chosen), length, dtype=torch.bool)
            for position, index in enumerate(chosen):
                ids[position, : len(rows[index])] = torch.tensor(rows[index])
                mask[position, : len(rows[index])] = True
            vectors[chosen] = self(ids, mask)
        return vectors


def load_minilm(tensors: Mapping[str, Tensor], *, tokenizer: str, config: str) -> MiniLm:
    """The model of tensors in transformers' BERT layout.

    Args:
        tokenizer: Its tokenizer.json; config: its config.json.
    """
    settings = json.loads(config)
    if settings.get("hidden_act") != "gelu":
        raise CheckpointError(f"hidden_act must be gelu, not {settings.get('hidden_act')!r}.")
    words = Tokenizer.from_str(tokenizer)
    words.no_padding()
    words.enable_truncation(MOST_TOKENS)
    with torch.device("meta"):
        model = MiniLm(
            words,
            vocabulary=settings["vocab_size"],
            positions=settings["max_position_embeddings"],
            width=settings["hidden_size"],
            hidden=settings["intermediate_size"],
            depth=settings["num_hidden_layers"],
            heads=settings["num_attention_heads"],
            eps=settings["layer_norm_eps"],
        )
    names = {
        "words": "embeddings.word_embeddings",
        "positions": "embeddings.position_embeddings",
        "types": "embeddings.token_type_embeddings",
        "norm": "embeddings.LayerNorm",
    }
    for index in range(settings["num_hidden_layers"]):
        theirs = f"encoder.layer.{index}"
        names |= {
            f"blocks.{index}.query": f"{theirs}.attention.self.query",
            f"blocks.{index}.key": f"{theirs}.attention.self.key",
            f"blocks.{index}.value": f"{theirs}.attention.self.value",
            f"blocks.{index}.out": f"{theirs}.attention.output.dense",
            f"blocks.{index}.attention_norm": f"{theirs}.attention.output.LayerNorm",
            f"blocks.{index}.up": f"{theirs}.intermediate.dense",
            f"blocks.{index}.down": f"{theirs}.output.dense",
            f"blocks.{index}.norm": f"{theirs}.output.LayerNorm",
        }
    state = {}
    for key in model.state_dict():
        ours, part = key.rsplit(".", 1)
        theirs = f"{names[ours]}.{part}"
        if theirs not in tensors:
            raise CheckpointError(f"The text model's weights lack {theirs}.")
        state[key] = tensors[theirs]
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
