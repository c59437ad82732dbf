from __future__ import annotations

import gzip
import hashlib
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import CLIPTokenizer

from piaa.encoders import tokenizer as module
from piaa.encoders.tokenizer import END_ID, START_ID, ClipTokenizer
from piaa.errors import InputError

SENTENCES = [
    "",
    " ",
    "a photo of a cat",
    "A Photo Of A DOG.",
    "a bad photo of the dining table, tv monitor & potted plant",
    "It's what we've said: they're here, I'm there, she'd go, you'll see, he can't, 'tis O'Neill's",
    "IT'S DON'T 'S 'LL''re'",
    "it’s “quoted” ‘text’ — and … more",
    "12345 3.14159 1,000,000 10km² ½ ⅷ ① ٣٤٥ ४५६",
    "!!! ??? ... :-) #hashtag @user http://example.org/a?b=c&d=e_f%20g",
    "snake_case CamelCase kebab-case a/b\\c <b>html</b> &amp; &#39;",
    "tab\there\nnew\r\nline\vvt\fff\u00a0nbsp\u1680\u2003em\u2028ls\u2029ps\u202f\u205f\u3000wide",
    "zero\u200bwidth\ufeffbom\u2060joiner soft\u00adhyphen nul\x00 bell\x07 \x1c\x1d\x1e\x1f\x85",
    "   leading and trailing   ",
    "Größe Straße façade naïve Ångström œuvre ĳsselmeer ǅ ŁÓDŹ",
    "İstanbul DİYARBAKIR ısı ẞ ﬁne ﬂat ﬃ",
    "e\u0301 cafe\u0301 n\u0303 A\u030a \u0301alone a\u0323\u0302 ệ \u212b \u2126",
    "Привет, мир! Ёжик съел ЩУКУ",
    "ΟΔΥΣΣΕΥΣ Καλημέρα κόσμε ΐ ΰ",
    "Բարեւ աշխարհ გამარჯობა მსოფლიო",
    "مرحبا بالعالم القِطَّة ﷺ",
    "שָׁלוֹם עולם",
    "नमस्ते दुनिया बिल्ली क्षत्रिय",
    "বিড়াল தமிழ் తెలుగు ಕನ್ನಡ മലയാളം ਪੰਜਾਬੀ ગુજરાતી සිංහල",
    "สวัสดีชาวโลก แมว ພາສາລາວ မြန်မာ ភាសាខ្មែរ བོད་ཡིག",
    "一张猫的照片，狗。繁體中文 𠀀𠮷",
    "猫の写真 カタカナ ひらがな ﾊﾝｶｸ ｶﾞ が",
    "고양이 사진 안녕 \u1112\u1161\u11ab 한",
    "ᏣᎳᎩ ꮳꮃꭹ አማርኛ ᠮᠣᠩᠭᠣᠯ 𐐀𐐨 𝒜𝔅ℂ",
    "😀😂🤣 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷🇯🇵 1️⃣ ❤️ ☕︎ 🧑🏿‍🚀",
    "cat🐱dog🐶 c🙂a🙂t",
    "<|startoftext|>",
    "<|endoftext|>",
    "a<|endoftext|>b <|startoftext|> c",
    "<|ENDOFTEXT|> <|endoftext| > <|endoftext",
    "</w> a</w> w>",
    "\ufffd \U0010ffff \ue000",
    "pneumonoultramicroscopicsilicovolcanoconiosis" * 4,
    "a photo of a cat " * 40,
    "👩‍👩‍👧‍👦" * 60,
]

SCRIPTS = {
    "ascii": (0x20, 0x7F),
    "latin": (0xA0, 0x250),
    "combining": (0x300, 0x370),
    "greek": (0x370, 0x400),
    "cyrillic": (0x400, 0x530),
    "hebrew": (0x591, 0x5F5),
    "arabic": (0x600, 0x700),
    "devanagari": (0x900, 0x980),
    "thai": (0xE01, 0xE5C),
    "georgian": (0x10A0, 0x1100),
    "jamo": (0x1100, 0x1200),
    "punctuation": (0x2000, 0x2070),
    "letterlike": (0x2100, 0x2190),
    "kana": (0x3041, 0x3100),
    "han": (0x4E00, 0x9FA6),
    "hangul": (0xAC00, 0xD7A4),
    "fullwidth": (0xFF01, 0xFFEF),
    "mathematical": (0x1D400, 0x1D800),
    "emoji": (0x1F300, 0x1F650),
}
GLUE = ["", "", "", " ", "  ", "\t", "\n", "\u00a0", "\u200d", "'s ", "-", "\u0301", "7", "a"]


def _random_strings(n_per_script: int) -> list[str]:
    draw = random.Random(0)
    return [
        "".join(
            chr(draw.randrange(first, last)) + draw.choice(GLUE) for _ in range(draw.randint(1, 24))
        )
        for first, last in SCRIPTS.values()
        for _ in range(n_per_script)
    ]


CORPUS = [*SENTENCES, *_random_strings(200)]


@pytest.fixture(scope="module")
def merges() -> list[tuple[str, str]]:
    packed = (files("piaa") / "data" / "clip_merges.txt.gz").read_bytes()
    lines = gzip.decompress(packed).decode().splitlines()
    return [(left, right) for left, right in (line.split(" ") for line in lines)]


@pytest.fixture(scope="module")
def symbol_of_byte() -> dict[int, str]:
    shown = [code for code in range(256) if chr(code).isprintable() and code != ord(" ")]
    hidden = [code for code in range(256) if code not in shown]
    return {code: chr(code) for code in shown} | {
        code: chr(256 + index) for index, code in enumerate(hidden)
    }


@pytest.fixture(scope="module")
def vocabulary(merges: list[tuple[str, str]], symbol_of_byte: dict[int, str]) -> dict[str, int]:
    symbols = list(symbol_of_byte.values())
    tokens = symbols + [symbol + "</w>" for symbol in symbols]
    tokens += [left + right for left, right in merges]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    return dict(zip(tokens, range(len(tokens)), strict=True))


@pytest.fixture(scope="module")
def reference(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> CLIPTokenizer:
    return CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=77)


@pytest.fixture(scope="module")
def plain_bpe(
    merges: list[tuple[str, str]], symbol_of_byte: dict[int, str], vocabulary: dict[str, int]
) -> Callable[[str], list[int]]:
    """Byte-pair encoding by the book, in Python, on text without special tokens."""
    regex = pytest.importorskip("regex")
    pattern = regex.compile(r"'(?:s|t|re|ve|m|ll|d)|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+")
    rank = {pair: index for index, pair in enumerate(merges)}

    def encode_piece(piece: str) -> list[int]:
        parts = [symbol_of_byte[byte] for byte in piece.encode()]
        parts[-1] += "</w>"
        while ranked := [pair for pair in pairwise(parts) if pair in rank]:
            best = min(ranked, key=rank.__getitem__)
            merged: list[str] = []
            while parts:
                width = 2 if tuple(parts[:2]) == best else 1
                merged.append("".join(parts[:width]))
                parts = parts[width:]
            parts = merged
        return [vocabulary[part] for part in parts]

    def encode(text: str) -> list[int]:
        # One character at a time: a Greek final sigma is lowered like any other.
        lowered = "".join(map(str.lower, unicodedata.normalize("NFC", text)))
        ids = [id_ for piece in pattern.findall(lowered) for id_ in encode_piece(piece)]
        return [START_ID, *ids[:75], END_ID]

    return encode


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("", []),
        ("a photo of a cat", [320, 1125, 539, 320, 2368]),
        ("a photo of a dog", [320, 1125, 539, 320, 1929]),
        ("a diagram", [320, 22697]),
        ("Hello  WORLD!", [3306, 1002, 256]),
    ],
)
def test_published_ids(text: str, ids: list[int]) -> None:
    assert ClipTokenizer().encode(text) == [49406, *ids, 49407]


def test_equals_transformers_on_many_scripts(reference: CLIPTokenizer) -> None:
    expected = reference(CORPUS, truncation=True)["input_ids"]
    rows = ClipTokenizer()(CORPUS).tolist()
    padded = [ids + [0] * (77 - len(ids)) for ids in expected]
    wrong = [t for t, row, ids in zip(CORPUS, rows, padded, strict=True) if row != ids]
    assert not wrong
    assert len(CORPUS) > 3000


FRAGMENTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["<|startoftext|>", "<|endoftext|>", "</w>", "'s", "'LL", " ", "\u3000", "\u200d", "\u0301"]
    ),
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=20).map("".join)))
def test_equals_transformers_on_any_text(reference: CLIPTokenizer, text: str) -> None:
    assert ClipTokenizer().encode(text) == reference(text, truncation=True)["input_ids"]


def test_equals_plain_python_bpe(plain_bpe: Callable[[str], list[int]]) -> None:
    texts = [text for text in [*SENTENCES, *_random_strings(15)] if "<|" not in text]
    encode = ClipTokenizer().encode
    assert [text for text in texts if encode(text) != plain_bpe(text)] == []


@pytest.mark.parametrize("length", [2, 3, 10, 77, 100])
def test_cut_keeps_the_end_token(length: int) -> None:
    row = ClipTokenizer(length)(["cat " * 200])[0].tolist()
    assert row == [START_ID] + [2368] * (length - 2) + [END_ID]


@pytest.mark.parametrize("n_words", [74, 75, 76])
def test_around_the_full_row(n_words: int) -> None:
    row = ClipTokenizer()(["cat " * n_words])[0].tolist()
    kept = min(n_words, 75)
    assert row == [START_ID] + [2368] * kept + [END_ID] + [0] * (75 - kept)


def test_rows_are_padded_with_zero_after_the_end() -> None:
    rows = ClipTokenizer()(("cat", "a photo of a cat"))
    assert rows.shape == (2, 77)
    assert rows.dtype == torch.int64
    # The text tower reads its output at the largest id: that must be the end token.
    assert rows.argmax(dim=1).tolist() == [2, 6]
    assert rows[0, 3:].count_nonzero() == 0


def test_encode_is_the_row_without_padding() -> None:
    tokenizer = ClipTokenizer()
    for text, row in zip(SENTENCES, tokenizer(SENTENCES), strict=True):
        ids = tokenizer.encode(text)
        assert row[: len(ids)].tolist() == ids
        assert row[len(ids) :].count_nonzero() == 0


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("cat", r"single str: 'cat'. Put it in a list"),
        (b"cat", r"single bytes"),
        ([], r"texts is empty"),
        ((), r"texts is empty"),
        (["cat", 3], r"texts\[1\] must be a string, got int: 3"),
        (["cat", "dog", None], r"texts\[2\] must be a string, got NoneType"),
        (["cat", b"dog"], r"texts\[1\] must be a string, got bytes"),
        ([["cat"]], r"texts\[0\] must be a string, got list"),
        ({"cat", "dog"}, r"got set"),
        (None, r"got NoneType"),
        (["ok", "bad \ud83d half"], r"texts\[1\] holds half of a UTF-16 .* at character 4"),
    ],
)
def test_bad_texts(texts: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ClipTokenizer()(texts)  # type: ignore[arg-type]


def test_bad_text_to_encode() -> None:
    with pytest.raises(InputError, match=r"text must be a string, got list"):
        ClipTokenizer().encode(["cat"])  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [1, 0, -5, 77.0, "77", True, None])
def test_bad_context_length(length: object) -> None:
    with pytest.raises(InputError, match="context_length must be an integer of at least 2"):
        ClipTokenizer(length)  # type: ignore[arg-type]


def test_threads_share_one_vocabulary() -> None:
    texts = CORPUS[::10]
    expected = ClipTokenizer()(texts)
    module._load_bpe.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: ClipTokenizer()(texts), range(16)))
    assert all(torch.equal(result, expected) for result in results)


def test_merges_are_the_published_ones(
    merges: list[tuple[str, str]], vocabulary: dict[str, int]
) -> None:
    notice = (files("piaa") / "data" / "NOTICE").read_text(encoding="utf-8")
    text = "".join(f"{left} {right}\n" for left, right in merges)
    assert hashlib.sha256(text.encode()).hexdigest() in notice
    assert "Copyright (c) 2021 OpenAI" in notice
    assert len(merges) == 48_894
    assert (vocabulary["<|startoftext|>"], vocabulary["<|endoftext|>"]) == (START_ID, END_ID)
    for left, right in merges:
        assert vocabulary[left] < vocabulary[left + right] > vocabulary[right]


def test_import_is_light_and_use_is_offline() -> None:
    script = """
import socket, sys
def refuse(*args, **kwargs): raise OSError("network")
socket.socket.connect = socket.getaddrinfo = refuse
from piaa.encoders import tokenizer
assert tokenizer._load_bpe.cache_info().currsize == 0, "vocabulary loaded at import"
assert tokenizer.ClipTokenizer().encode("dog") == [49406, 1929, 49407]
assert "transformers" not in sys.modules, "transformers imported"
"""
    subprocess.run([sys.executable, "-c", script], check=True)
