"""CLIP's byte-pair encoding: words -> token ids.

The ids are those of transformers' `CLIPTokenizer`. OpenAI's own `clip.tokenize` first repairs
mis-decoded text, straightens curly quotes, resolves HTML entities (`&amp;`) and lowers a Greek
final sigma by its place in the word, so texts with any of these can get other ids there.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import torch
from tokenizers import AddedToken, Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from piaa.errors import InputError

START_ID = 49_406
END_ID = 49_407
_START = "<|startoftext|>"
_END = "<|endoftext|>"
_END_OF_WORD = "</w>"
_PIECES = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"


class ClipTokenizer:
    """Text to the fixed-length rows of token ids that a CLIP text tower reads.

    Args:
        context_length: Length of a row, start and end token included; 77 for every published CLIP.

    The strings `<|startoftext|>` and `<|endoftext|>` inside a text become those tokens, as in CLIP.
    Instances share one read-only vocabulary, loaded at first use, and may be used from any thread.

    >>> ClipTokenizer(context_length=8)(["a photo of a cat", "dog"])
    tensor([[49406,   320,  1125,   539,   320,  2368, 49407,     0],
            [49406,  1929, 49407,     0,     0,     0,     0,     0]])
    """

    def __init__(self, context_length: int = 77) -> None:
        if type(context_length) is not int or context_length < 2:
            raise InputError(
                f"context_length must be an integer of at least 2 (start and end token), "
                f"got {context_length!r}. Published CLIP models use 77."
            )
        self.context_length = context_length

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Token ids of each text, zero after the end token: (N, context_length) int64.

        A text that is too long is cut; its row then ends with the end token.
        """
        if isinstance(texts, str | bytes):
            raise InputError(
                f"texts must be a list of strings, got a single {type(texts).__name__}: {texts!r}. "
                f"Put it in a list."
            )
        if not isinstance(texts, Sequence):
            raise InputError(
                f"texts must be a list or tuple of strings, got {type(texts).__name__}. "
                f"Convert it to a list first."
            )
        if not texts:
            raise InputError("texts is empty: give at least one string.")
        rows = torch.zeros(len(texts), self.context_length, dtype=torch.int64)
        for position, (row, text) in enumerate(zip(rows, texts, strict=True)):
            ids = self._encode(text, name=f"texts[{position}]")
            row[: len(ids)] = torch.tensor(ids)
        return rows

    def encode(self, text: str) -> list[int]:
        """The row of one text without its padding: between 2 and context_length ids.

        >>> ClipTokenizer().encode("A photo of a dog")
        [49406, 320, 1125, 539, 320, 1929, 49407]
        """
        return self._encode(text, name="text")

    def _encode(self, text: str, *, name: str) -> list[int]:
        if not isinstance(text, str):
            raise InputError(f"{name} must be a string, got {type(text).__name__}: {text!r}.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{name} holds half of a UTF-16 surrogate pair at character {error.start}, which "
                f"is not valid text: {text!r}. Decode its source again, or remove that character."
            ) from error
        ids: list[int] = _load_bpe().encode(text, add_special_tokens=False).ids
        return [START_ID, *ids[: self.context_length - 2], END_ID]


@cache
def _load_bpe() -> Tokenizer:
    packed = files("piaa").joinpath("data", "clip_merges.txt.gz").read_bytes()
    words = gzip.decompress(packed).decode().split()
    merges = list(zip(words[::2], words[1::2], strict=True))
    symbols = _byte_symbols()
    tokens = [
        *symbols,
        *(symbol + _END_OF_WORD for symbol in symbols),
        *map("".join, merges),
        _START,
        _END,
    ]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    bpe = Tokenizer(BPE(vocab=vocabulary, merges=merges, end_of_word_suffix=_END_OF_WORD))
    bpe.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="removed", invert=True),
            # The pieces are final: GPT-2's own splitting, the default here, would find no more.
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (_START, _END)]
    )
    return bpe


def _byte_symbols() -> list[str]:
    """The 256 characters that stand for bytes, in the order of their token ids.

    GPT-2's alphabet: printable Latin-1 characters stand for themselves and come first; the other
    bytes, in ascending order, follow as the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(code) for code in [*printable, *range(0x100, 0x200 - len(printable))]]
