"""The sentence model against transformers' BERT with the same weights."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from torch import Tensor
from transformers import BertConfig, BertModel

from piaa.encoders.lite.minilm import load_minilm
from piaa.encoders.lite.sources import MINILM
from piaa.encoders.package_index import PackageSource, PackageWeights
from piaa.errors import CheckpointError

TEXTS = ["dog", "a dog on a bench", "the cat", "a " * 300, "zebra crossing"]


def reference(bert: BertModel, tokenizer: Tokenizer, text: str) -> Tensor:
    """One text by itself: mean over its tokens, then unit length."""
    ids = tokenizer.encode(text).ids[:]
    if len(ids) > 256:
        ids = [*ids[:255], ids[-1]]
    with torch.no_grad():
        hidden = bert(input_ids=torch.tensor([ids])).last_hidden_state[0]
    return F.normalize(hidden.mean(0), dim=0)


def check(bert: BertModel, tensors: dict[str, Tensor], tokenizer: str, config: str) -> None:
    model = load_minilm(tensors, tokenizer=tokenizer, config=config)
    plain = Tokenizer.from_str(tokenizer)
    plain.no_padding()
    plain.no_truncation()
    expected = torch.stack([reference(bert, plain, text) for text in TEXTS])
    torch.testing.assert_close(model.encode(TEXTS), expected, atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def small() -> tuple[BertModel, dict[str, Tensor], str, str]:
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "a",
        "dog",
        "cat",
        "the",
        "on",
        "bench",
        "ze",
        "##bra",
    ]
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    settings = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 260,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
    }
    torch.manual_seed(0)
    bert = BertModel(BertConfig(**settings), add_pooling_layer=False).eval()
    for parameter in bert.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return bert, dict(bert.state_dict()), tokenizer.to_str(), json.dumps(settings)


def test_random_weights_equal_bert(small: tuple[BertModel, dict[str, Tensor], str, str]) -> None:
    check(*small)


def test_published_weights_equal_bert(
    real_weights: Callable[[PackageSource], PackageWeights],
) -> None:
    weights = real_weights(MINILM)
    config = BertConfig(**json.loads(weights.texts["config"]))
    bert = BertModel(config, add_pooling_layer=False).eval()
    expected = set(bert.state_dict())
    bert.load_state_dict({k: v for k, v in weights.tensors.items() if k in expected})
    check(bert, dict(weights.tensors), weights.texts["tokenizer"], weights.texts["config"])


def test_a_lacking_tensor_is_named(small: tuple[BertModel, dict[str, Tensor], str, str]) -> None:
    _, tensors, tokenizer, config = small
    lacking = {k: v for k, v in tensors.items() if k != "encoder.layer.1.output.dense.bias"}
    with pytest.raises(CheckpointError, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        load_minilm(lacking, tokenizer=tokenizer, config=config)


def test_another_activation_is_refused(
    small: tuple[BertModel, dict[str, Tensor], str, str],
) -> None:
    _, tensors, tokenizer, config = small
    other = json.dumps(json.loads(config) | {"hidden_act": "relu"})
    with pytest.raises(CheckpointError, match="'relu'"):
        load_minilm(tensors, tokenizer=tokenizer, config=other)
