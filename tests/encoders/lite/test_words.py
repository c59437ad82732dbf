"""The map from words to classes against a slow one, and on the real weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.lite import words
from piaa.encoders.lite.encoder import LiteEncoder
from piaa.encoders.lite.lexicon import Lexicon
from piaa.encoders.lite.words import WordMap, plain_name

# 0 thing: 1 animal (2 cat, 3 dog), 4 tool (5 crane, 6 drill); classes are cat, dog, crane, drill.
LEXICON = Lexicon(
    lemmas=[
        ("thing",),
        ("animal", "beast"),
        ("cat",),
        ("dog", "hound"),
        ("tool",),
        ("crane",),
        ("drill",),
    ],
    parents=[(), (0,), (1,), (1,), (0,), (4,), (4,)],
    classes=[(0, 1, 2, 3), (0, 1), (0,), (1,), (2, 3), (2,), (3,)],
    words={"cat": "2", "dog": "3", "crane": "1+1;5", "fox": "1+2", "tool": "4"},
    sha256="",
)


def seeded(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def small() -> WordMap:
    return WordMap(seeded(4, 6, seed=0), LEXICON)


def sentences(n: int, seed: int = 1) -> Tensor:
    return F.normalize(seeded(n, 5, seed=seed), dim=1)


def slow_likeness(rows: Tensor, vector: Tensor, phrases: Sequence[str], known: Tensor) -> Tensor:
    centered = [row - rows.mean(0) for row in rows]
    unit = [row / row.norm() for row in centered]
    total, at = torch.zeros(rows.shape[1]), 0
    for lemmas, classes in zip(LEXICON.lemmas, LEXICON.classes, strict=True):
        mean = sum((unit[c] for c in classes), torch.zeros(rows.shape[1]))
        for lemma in lemmas:
            assert phrases[at] == lemma
            weight = math.exp(words.TEMPERATURE * (float(known[at] @ vector) - 1)) / len(lemmas)
            total += weight * mean / mean.norm()
            at += 1
    return total / total.norm()


def test_unknown_words_go_by_likeness_alone(small: WordMap) -> None:
    vectors, known = sentences(3), sentences(9, seed=2)
    found = small(["qwrtzp", "", "-"], vectors, known)
    for index in range(3):
        expected = slow_likeness(seeded(4, 6, seed=0), vectors[index], small.phrases, known)
        torch.testing.assert_close(found[index], expected)


def test_a_covered_noun_adds_the_mean_row_of_its_classes(small: WordMap) -> None:
    vectors, known = sentences(1), sentences(9, seed=2)
    likeness = small(["qwrtzp"], vectors, known)[0]
    found = small(["tool"], vectors, known)[0]
    mean = F.normalize(small.rows[2] + small.rows[3], dim=0)
    torch.testing.assert_close(found, F.normalize(likeness + mean, dim=0))


def test_a_noun_outside_adds_what_is_above_it(small: WordMap) -> None:
    vectors, known = sentences(1), sentences(9, seed=2)
    likeness = small(["qwrtzp"], vectors, known)[0]
    animal = F.normalize(small.rows[0] + small.rows[1], dim=0)
    thing = F.normalize(small.rows.sum(0), dim=0)
    above = animal * words.STEP**2 / math.sqrt(2) + thing * words.STEP**3 / math.sqrt(4)
    expected = F.normalize(likeness + F.normalize(above, dim=0), dim=0)
    torch.testing.assert_close(small(["fox"], vectors, known)[0], expected)


def test_a_phrase_goes_by_its_last_words_with_less_weight(small: WordMap) -> None:
    vectors, known = sentences(1), sentences(9, seed=2)
    likeness = small(["qwrtzp"], vectors, known)[0]
    found = small(["very old cat"], vectors, known)[0]
    expected = F.normalize(likeness + words.HEAD_WEIGHT * small.rows[0], dim=0)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("near", "sense"), [("beast", 0), ("crane", 2)])
def test_the_sense_that_agrees_with_the_likeness_wins(
    small: WordMap, near: str, sense: int
) -> None:
    known = F.normalize(torch.eye(9), dim=1)
    vector = known[small.phrases.index(near)][None]
    found = small(["crane"], vector, known)[0]
    cosines = small.rows @ found
    assert cosines.argmax() in ((0, 1) if sense == 0 else (2,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("dog", "dog"),
        ("A Dog.", "dog"),
        ("a photo of a dog", "dog"),
        ("a bad photo of many traffic_lights!", "traffic lights"),
        ("photo of the picture frame", "picture frame"),
        ("photo", "photo"),
        ("a photo of", "photo of"),
        ("the", "the"),
        ("...", "..."),
        ("orange, the fruit", "orange, the fruit"),
    ],
)
def test_the_frame_of_a_prompt_is_taken_off(text: str, name: str) -> None:
    assert plain_name(text) == name


def nearest(lite: LiteEncoder, text: str) -> list[str]:
    """First lemmas of the five classes nearest to a text."""
    word_map = lite._word_map
    leaf = {classes[0]: lemmas[0] for lemmas, classes in leaves(word_map.lexicon)}
    cosines = word_map.rows @ lite.encode_text([text])[0]
    return [leaf[int(c)] for c in cosines.topk(5).indices]


@pytest.mark.parametrize(
    ("text", "among"),
    [
        ("mouse (computer)", "computer keyboard"),
        ("mouse (animal)", "beaver"),
        ("crane (bird)", "American egret"),
        ("orange", "lemon"),
        ("bass guitar", "acoustic guitar"),
        ("cow", "ox"),
        ("giraffe", "ibex"),
        ("cats", "tabby"),
        ("beach", "seashore"),
    ],
)
def test_senses_synonyms_and_words_outside_imagenet(
    lite: LiteEncoder, text: str, among: str
) -> None:
    assert among in nearest(lite, text)


def test_names_of_hidden_classes_find_their_rows(lite: LiteEncoder) -> None:
    """With the rows of 100 classes hidden, their names rank them; 1/rank would be 0.05 by chance."""
    word_map = lite._word_map
    lexicon = word_map.lexicon
    hidden = torch.randperm(1000, generator=torch.Generator().manual_seed(1))[:100].tolist()
    own = {classes[0]: lemmas[0] for lemmas, classes in leaves(lexicon)}
    kept = Lexicon(
        lexicon.lemmas,
        lexicon.parents,
        [tuple(c for c in classes if c not in set(hidden)) for classes in lexicon.classes],
        lexicon.words,
        "",
    )
    blind = HiddenRows(word_map.rows, kept)
    names = [plain_name(own[c]) for c in hidden]
    found = blind(names, lite._minilm.encode(names), lite._phrase_vectors)
    cosines = found @ word_map.rows[hidden].T
    ranks = (cosines > cosines.diagonal()[:, None]).sum(1) + 1
    assert float((1 / ranks).mean()) > 0.6


def leaves(lexicon: Lexicon) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Synsets that are classes: those that no other synset with the same class lies below."""
    inner = {up for parents in lexicon.parents for up in parents}
    return [
        (lexicon.lemmas[n], lexicon.classes[n])
        for n in range(len(lexicon.lemmas))
        if n not in inner
    ]


class HiddenRows(WordMap):
    """A map whose synsets without any class left are out of use."""

    def __init__(self, rows: Tensor, lexicon: Lexicon) -> None:
        super().__init__(rows, lexicon)
        self.rows = rows
        empty = self._size == 0
        self._share = self._share * ~empty[self._owner]
        self._size[empty] = 10_000  # too wide

    def _direction(self, sense: tuple[tuple[int, int], ...]) -> Tensor | None:
        if len(sense) == 1 and self._size[sense[0][0]] == 10_000:
            sense = tuple((up, 1) for up in self.lexicon.parents[sense[0][0]])
        return super()._direction(sense)
