"""Compound prompts, "dog and person", and the classes that each one speaks of.

The authors of SPARC count which classes occur together on the training labels, and let a language
model write further sentences. Without annotations the counts come from pseudo-labels, and sentences
from whoever wants to write some.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from piaa.classes.class_list import ClassList
from piaa.classes.near_names import comparable, plurals

# The authors' limits on Pr(j | i) for a pair, and on Pr(k | i, j) for its third class.
PAIR_PROBABILITY = 0.05
TRIPLE_PROBABILITY = 0.025


@dataclass(frozen=True)
class Compounds:
    """Compound prompts.

    Attributes:
        texts: N of them.
        members: (N, C) bool, which classes each one speaks of.
    """

    texts: tuple[str, ...]
    members: Tensor


def all_pairs(classes: ClassList) -> Compounds:
    """Every pair of classes."""
    return _name_groups(list(combinations(range(len(classes)), 2)), classes)


def likely_groups(labels: Tensor, classes: ClassList) -> Compounds:
    """Pairs that occur together in (pseudo-)labels (n, C) bool, and the likeliest third of each.

    A pair counts if either class makes the other likely enough, whatever their order; the authors
    ask for the later given the earlier one only.
    """
    held = labels.double()
    together = held.T @ held
    given = together / together.diagonal()[:, None].clamp_min(1)
    likely = torch.maximum(given, given.T) > PAIR_PROBABILITY
    pairs = likely.triu(1).nonzero()
    both = held[:, pairs[:, 0]] * held[:, pairs[:, 1]]
    third = (both.T @ held) / both.sum(0)[:, None].clamp_min(1)
    third.scatter_(1, pairs, 0)
    best = third.max(dim=1)
    chosen = best.values > TRIPLE_PROBABILITY
    triples = torch.cat([pairs, best.indices[:, None]], dim=1)[chosen]
    # One triple may come from each of its pairs.
    unique = dict.fromkeys(tuple(sorted(triple)) for triple in triples.tolist())
    return _name_groups([*map(tuple, pairs.tolist()), *unique], classes)


def mentioned(texts: Sequence[str], classes: ClassList) -> Compounds:
    """Sentences as they are; a class is in those that hold its name or a plural of it.

    Longer names are looked for first, and what they cover is not looked at again: "hot dog" is no
    dog.

    >>> mentioned(["two dogs and a hot dog"], ClassList.of(["dog", "hot dog", "cat"])).members
    tensor([[ True,  True, False]])
    >>> mentioned(["a hot dog"], ClassList.of(["dog", "hot dog", "cat"])).members
    tensor([[False,  True, False]])
    """
    patterns = [
        re.compile("|".join(rf"\b{re.escape(word)}\b" for word in (key, *plurals(key))))
        for key in map(comparable, classes.names)
    ]
    longest_first = sorted(range(len(classes)), key=lambda c: -len(classes.names[c]))
    members = torch.zeros(len(texts), len(classes), dtype=torch.bool)
    for row, text in zip(members, map(comparable, texts), strict=True):
        rest = text
        for c in longest_first:
            rest, times = patterns[c].subn("!", rest)
            row[c] = times > 0
    return Compounds(tuple(texts), members)


def _name_groups(groups: Sequence[tuple[int, ...]], classes: ClassList) -> Compounds:
    members = torch.zeros(len(groups), len(classes), dtype=torch.bool)
    for row, group in zip(members, groups, strict=True):
        row[list(group)] = True
    texts = (_conjunction([classes.names[c] for c in group]) for group in groups)
    return Compounds(tuple(texts), members)


def _conjunction(names: Sequence[str]) -> str:
    """ "a and b" or "a, b, and c"."""
    *first, last = names
    return f"{', '.join(first)}{',' if len(first) > 1 else ''} and {last}"
