"""Names of other things that pictures may show: rivals for a short list of classes.

A patch is scored by a softmax over names. Among cat, dog and sofa alone, the wheels of a train are some
animal's. So a short list gets other names beside its own, of things that most collections show, as many as
make 20 of both. They compete, have banks and are learnt like classes; nobody sees their scores.

In a collection of cats and dogs alone such rivals only blur what tells the two apart. That is seen without a
label: hardly any image then has one of the other names as its best one, and they are left out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import torch.nn.functional as F
from torch import Tensor

from piaa.classes.class_list import Classes, ClassList, encode_classes
from piaa.classes.near_names import comparable, joined, plurals
from piaa.encoders.base import Encoder
from piaa.errors import InputError

Others: TypeAlias = Classes | Literal["auto"] | None

# From the broad to the narrow, neighbors unlike each other: a list of classes takes the first that suit it.
NAMES: Final = (
    *("person", "animal", "tree", "building", "car", "food", "sky", "water", "furniture", "clothing"),
    *("bird", "flower", "road", "computer", "rock", "book", "window", "boat", "dog", "sign"),
    *("fruit", "machine", "fish", "grass", "ball", "lamp", "train", "insect", "bottle", "mountain"),
    *("airplane", "toy", "musical instrument", "cat", "bicycle", "snow", "clock", "shoe", "tool", "bridge"),
)  # fmt: skip
ENOUGH = 20  # names, among which a class has rivals enough
ALIKE = 0.35  # cosine of two names, from their mean, from which one may mean the other
CLOSED = (
    0.25  # share of images that other names fit best, below which there is nothing else to be seen
)
_DOUBT = 4  # images that are taken to show something else before any was seen
_SAME = 0.999  # cosine of names that an encoder does not tell apart


def find_others(
    encoder: Encoder, classes: ClassList, text: Tensor, template: str, others: Others
) -> tuple[tuple[str, ...], Tensor]:
    """The other names, and their prototypes (R, D), beside classes with the prototypes text (C, D).

    Args:
        others: names to take as they are, `None` for none, or "auto" for some of `NAMES`.
    """
    if others is None:
        return (), text[:0]
    if others == "auto":
        if len(classes) >= ENOUGH:
            return (), text[:0]
        candidates = encode_classes(encoder, ClassList.of(NAMES), template)
        chosen = choose(classes, text, candidates)
        return tuple(NAMES[place] for place in chosen), candidates[chosen]
    given = ClassList.of(others)
    known = {comparable(phrase) for phrases in classes.phrases for phrase in phrases}
    for name in given.names:
        if comparable(name) in known:
            raise InputError(
                f"others names {name!r}, which is a class. Give names of things that are none of the "
                "classes, 'auto', or None."
            )
    return given.names, encode_classes(encoder, given, template)


def choose(classes: ClassList, text: Tensor, candidates: Tensor) -> list[int]:
    """Which of `NAMES` suit classes with prototypes text (C, D), in order; candidates (len(NAMES), D).

    One that may mean a class, or the same as one before it, is passed over.
    """
    center = candidates.mean(0)
    apart, own = (F.normalize(rows - center, dim=1) for rows in (candidates, text))
    near_class = (apart @ own.T).amax(1) >= ALIKE
    near_class |= (candidates @ text.T).amax(1) >= _SAME
    alike = (apart @ apart.T >= ALIKE) | (candidates @ candidates.T >= _SAME)
    taken: list[int] = []
    for place in range(len(NAMES)):
        if len(taken) >= ENOUGH - len(classes):
            break
        if near_class[place] or alike[place, taken].any() or _is_one_of(NAMES[place], classes):
            continue
        taken.append(place)
    return taken


def check_compared(classes: ClassList, others: Sequence[str]) -> None:
    """Before a fit, one class needs something to be compared with, or an error."""
    if len(classes) == 1 and not others:
        raise InputError(
            f"Before fit, a single class ({classes.names[0]!r}) has nothing to be compared with. "
            "Add classes that it could be confused with, leave others='auto', or fit first."
        )


def unnamed_share(evidence: Tensor, n_others: int) -> float:
    """Share of images that hold none of the classes, by evidence (n, C + n_others) of the text.

    Those are taken for such that one of the other names, the last columns, fits best.
    """
    elsewhere = evidence.argmax(1) >= evidence.shape[1] - n_others
    return (int(elsewhere.sum()) + _DOUBT) / (len(evidence) + _DOUBT)


def _is_one_of(name: str, classes: ClassList) -> bool:
    """Whether a class is described by that very name, or its plural."""
    spellings = {joined(form) for form in (comparable(name), *plurals(comparable(name)))}
    phrases: Sequence[str] = [phrase for some in classes.phrases for phrase in some]
    return any(joined(comparable(phrase)) in spellings for phrase in phrases)
