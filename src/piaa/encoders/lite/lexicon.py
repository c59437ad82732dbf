"""Nouns -> ImageNet classes, by WordNet. The file's format is told in scripts/build_lexicon.py."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeAlias

# Synsets with the steps up to them: (n, 0) alone for a noun that covers classes itself, else the
# nearest synsets above it that do.
Sense: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Lexicon:
    """The part of WordNet that touches the 1,000 classes.

    Attributes:
        lemmas: Of each synset that covers a class.
        parents: Numbers of the synsets directly above it.
        classes: The classes it covers, rising.
        words: Senses of a noun, the more frequent first.
        sha256: Of the unpacked file.
    """

    lemmas: Sequence[tuple[str, ...]]
    parents: Sequence[tuple[int, ...]]
    classes: Sequence[tuple[int, ...]]
    words: dict[str, str]
    sha256: str

    def senses(self, word: str) -> list[Sense]:
        """Senses of a noun as it stands in WordNet; empty for an unknown one."""
        packed = self.words.get(word)
        return [_parse_sense(sense) for sense in packed.split(";")] if packed else []

    def find(self, phrase: str) -> list[Sense]:
        """Senses of a noun in any of its spellings.

        >>> lexicon = load_lexicon()
        >>> lexicon.find("T-shirts") == lexicon.find("tee shirt") != []
        True
        """
        for spelling in _spellings(phrase):
            if senses := self.senses(spelling):
                return senses
        return []

    def above(self, sense: Sense) -> dict[int, int]:
        """All synsets from a sense upwards, with the fewest steps to each."""
        steps = dict(sense)
        edge = sorted(steps, key=steps.__getitem__)
        for number in edge:  # grows while it is walked
            for parent in self.parents[number]:
                if steps[number] + 1 < steps.get(parent, 1_000):
                    steps[parent] = steps[number] + 1
                    edge.append(parent)
        return steps


@cache
def load_lexicon() -> Lexicon:
    text = gzip.decompress(files("piaa").joinpath("data", "lexicon.txt.gz").read_bytes())
    synsets, nouns = text.decode("ascii").split("\n\n")
    rows = [line.split("\t") for line in synsets.split("\n")]
    parents = [tuple(map(int, row[1].split(","))) if row[1] else () for row in rows]
    covered: list[set[int]] = [set() for _ in rows]
    for number, row in enumerate(rows):
        if row[2]:
            edge, seen = [number], {number}
            for reached in edge:
                covered[reached].add(int(row[2]))
                new = [up for up in parents[reached] if up not in seen]
                seen.update(new)
                edge.extend(new)
    return Lexicon(
        lemmas=[tuple(row[0].split("|")) for row in rows],
        parents=parents,
        classes=[tuple(sorted(classes)) for classes in covered],
        words=dict(line.split("\t") for line in nouns.splitlines()),
        sha256=hashlib.sha256(text).hexdigest(),
    )


def _parse_sense(text: str) -> Sense:
    pairs = (part.partition("+") for part in text.split(","))
    return tuple((int(number), int(steps or 0)) for number, _, steps in pairs)


def _spellings(phrase: str) -> list[str]:
    """Forms to look up, best first: as written, with other joints, and as a singular.

    >>> _spellings("cell phones")[:4]
    ['cell phones', 'cellphones', 'cell-phones', 'cell phone']
    """
    phrase = phrase.lower()
    forms = [phrase]
    for ending, singular in (("ies", "y"), ("ves", "f"), ("es", ""), ("s", "")):
        if phrase.endswith(ending) and len(phrase) > len(ending) + 1:
            forms.append(phrase.removesuffix(ending) + singular)
    if len(forms) > 2:
        forms[1:] = forms[:0:-1]  # dropping a single "s" is right most often
    spellings = []
    for form in forms:
        apart = form.replace("-", " ")
        spellings += [form, apart, apart.replace(" ", ""), apart.replace(" ", "-")]
    return list(dict.fromkeys(spellings))
