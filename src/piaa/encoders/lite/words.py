"""Any words -> directions in the space of an ImageNet network's features.

A class's row of the classifier weight, with the mean row taken off, is a direction in which the
features of its images lie. Words find their rows in two ways, which are added:

* by likeness: the mean of all WordNet synsets that cover classes, weighted by how near the words
  are to a synset's lemmas for a sentence model;
* by sense: the synset that the words are a name of or, outside ImageNet, the synsets above it; of
  several senses those that agree with the likeness.

The constants were chosen on left-out classes: the rows of 100 classes are hidden, and their names
must find them again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.lite.lexicon import Lexicon, Sense

TEMPERATURE = (
    10.0  # of the likeness to lemmas, as cosine; 15 is alike on left-out classes (MRR 0.718, 0.726)
)
MOST_CLASSES = 300  # a synset above so many is too wide to stand for anything one sees
WIDE = 100  # the same for a synset above the words' own
STEP = 0.6  # weight of a synset for each step above the words
AGREEMENT = 20.0  # how much a sense gains with its cosine to the likeness
RARER = 0.7  # prior weight of each further sense
HEAD_WEIGHT = 1 / 3  # of the last word's senses, for a phrase that WordNet does not know

_FRAME = re.compile(r"^.*\b(photo|photograph|picture|image)s?\s+of\s+(?=\w)")
_ARTICLE = re.compile(r"^(an?|the|my|some|many|several)\s+(?=\w)")


class WordMap:
    """Turns words into unit vectors of length D.

    Args:
        rows: (1000, D) classifier weight.
        lexicon: Which nouns point to which classes.
    """

    def __init__(self, rows: Tensor, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.rows = F.normalize(rows.float() - rows.float().mean(0), dim=1)
        member = torch.zeros(len(lexicon.classes), len(rows))
        for number, classes in enumerate(lexicon.classes):
            member[number, list(classes)] = 1
        self._size = member.sum(1)
        self._synsets = F.normalize(member @ self.rows, dim=1)
        self.phrases, self._owner, self._share = _phrases(lexicon)

    def __call__(self, names: Sequence[str], vectors: Tensor, phrase_vectors: Tensor) -> Tensor:
        """Unit vectors (N, D) float32 of names.

        Args:
            names: What `plain_name` made of the texts.
            vectors: (N, W) unit sentence vectors of the names; phrase_vectors: of `phrases`.
        """
        weights = torch.exp(TEMPERATURE * (vectors @ phrase_vectors.T - 1)) * self._share
        on_synsets = torch.zeros(len(names), len(self._synsets))
        on_synsets.index_add_(1, self._owner, weights)
        likeness = F.normalize(on_synsets @ self._synsets, dim=1)
        result = likeness.clone()
        for index, name in enumerate(names):
            senses, weight = self._look_up(name)
            directions = [d for sense in senses if (d := self._direction(sense)) is not None]
            if directions:
                result[index] += weight * _mix(torch.stack(directions), likeness[index])
        return F.normalize(result, dim=1)

    def _look_up(self, name: str) -> tuple[list[Sense], float]:
        """Senses of a name and what they weigh; a part in brackets or after a comma is context."""
        noun = re.split(r"[(,;:]", name)[0].strip() or name
        if senses := self.lexicon.find(noun):
            return senses, 1.0
        words = noun.split()
        for start in range(1, len(words)):
            if senses := self.lexicon.find(" ".join(words[start:])):
                return senses, HEAD_WEIGHT
        return [], 0.0

    def _direction(self, sense: Sense) -> Tensor | None:
        """Unit vector of a sense; none if all above it is too wide to say anything."""
        if len(sense) == 1 and sense[0][1] == 0:
            return self._synsets[sense[0][0]]
        above = [
            (n, steps) for n, steps in self.lexicon.above(sense).items() if self._size[n] <= WIDE
        ]
        if not above:
            return None
        numbers = [number for number, _ in above]
        steps = torch.tensor([step for _, step in above])
        weights = STEP**steps / self._size[numbers].sqrt()
        return F.normalize(weights @ self._synsets[numbers], dim=0)


def plain_name(text: str) -> str:
    """The name in a prompt: a photograph's frame says nothing of what is to be found in it.

    >>> plain_name("A blurry photo of the  dog."), plain_name("Mouse (computer)")
    ('dog', 'mouse (computer)')
    """
    name = " ".join(text.lower().replace("_", " ").split()).strip(" .!?\"'")
    name = _ARTICLE.sub("", _FRAME.sub("", name))
    return name or text


def _mix(directions: Tensor, likeness: Tensor) -> Tensor:
    """Unit mean of the directions (S, D) of senses by their rank and agreement."""
    prior = RARER ** torch.arange(len(directions))
    weights = prior * torch.exp(AGREEMENT * (directions @ likeness - 1))
    return F.normalize(weights @ directions, dim=0)


def _phrases(lexicon: Lexicon) -> tuple[list[str], Tensor, Tensor]:
    """Lemmas of all synsets not too wide, the synset of each, and its share in the synset."""
    phrases: list[str] = []
    owner: list[int] = []
    share: list[float] = []
    for number, (lemmas, classes) in enumerate(zip(lexicon.lemmas, lexicon.classes, strict=True)):
        if len(classes) <= MOST_CLASSES:
            phrases += lemmas
            owner += [number] * len(lemmas)
            share += [1 / len(lemmas)] * len(lemmas)
    return phrases, torch.tensor(owner), torch.tensor(share)
