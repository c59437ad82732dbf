"""The classes to look for: their names, and the words that describe each to a text encoder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.classes.entries import (
    ClassNameWarning,
    Entry,
    check_entries,
    read_classes,
    warn_of_near_duplicates,
)
from piaa.encoders.base import Encoder
from piaa.errors import InputError, UnknownNameError

__all__ = ["DEFAULT_TEMPLATE", "ClassList", "ClassNameWarning", "Classes", "encode_classes"]

DEFAULT_TEMPLATE: Final = "a photo of a {}"
# Unit vectors that cancel leave rounding errors of about 1e-8, not exactly 0.
_SHORTEST_MEAN = 1e-5


@dataclass(frozen=True)
class ClassList:
    """Classes in order; made by `ClassList.of`.

    Attributes:
        names: one a class, each different (case and white space do not make a difference).
        phrases: the words that describe each class, used for its prompts; at least one.
    """

    names: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.phrases):
            raise InputError(
                f"A ClassList needs phrases for each class, not {len(self.phrases)} for "
                f"{len(self.names)} names."
            )
        pairs = zip(self.names, self.phrases, strict=True)
        check_entries([Entry(n, p, f"names[{i}]") for i, (n, p) in enumerate(pairs)], "names")

    @classmethod
    def of(cls, classes: Classes) -> ClassList:
        """The classes in a list, a mapping to synonyms, a list that ships with piaa or a text file.

        In a list or file, "sofa: couch, settee" is the class sofa, described by sofa, couch and
        settee. In a file each line is a class, "#" at its start or after a space begins a comment
        and blank lines are skipped. In a mapping colons and commas are part of the names.

        A string is the name of a shipped list (`piaa.list_class_lists`), else the path of a file;
        "./voc" and `Path("voc")` are always files.

        Raises:
            InputError: no class, an empty or repeated name, a synonym of two classes, a file that
                is not there or not UTF-8.
        Warns:
            ClassNameWarning: names that look alike, such as dog and dogs, or a name that is a
                synonym of another class.

        >>> ClassList.of(["cat", "sofa: couch, settee"]).phrases
        (('cat',), ('sofa', 'couch', 'settee'))
        """
        if isinstance(classes, ClassList):
            return classes
        source, entries = read_classes(classes)
        check_entries(entries, source)
        warn_of_near_duplicates(entries)
        return cls(tuple(e.name for e in entries), tuple(e.phrases for e in entries))

    def __len__(self) -> int:
        return len(self.names)

    def index(self, name: str) -> int:
        """Position of a class; its exact name, none of its synonyms."""
        if name not in self.names:
            raise UnknownNameError("class", name, self.names)
        return self.names.index(name)

    def prompts(self, template: str = DEFAULT_TEMPLATE) -> list[list[str]]:
        """For each class, the template with each of its phrases in the place of {}.

        >>> ClassList.of(["sofa: couch"]).prompts("a photo of a {}.")
        [['a photo of a sofa.', 'a photo of a couch.']]
        """
        if not isinstance(template, str) or template.count("{}") != 1:
            raise InputError(
                f"The prompt template must be a string that holds {{}} exactly once, not "
                f"{template!r}. Write it like {DEFAULT_TEMPLATE!r}."
            )
        return [[template.replace("{}", p) for p in phrases] for phrases in self.phrases]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` gives an equal object back."""
        return {"names": list(self.names), "phrases": [list(p) for p in self.phrases]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        names, phrases = values.get("names"), values.get("phrases")
        if (
            values.keys() != {"names", "phrases"}
            or not isinstance(names, list)
            or not isinstance(phrases, list)
            or not all(isinstance(some, list) for some in phrases)
        ):
            raise InputError(
                "A saved class list needs a list 'names' and a list of lists 'phrases' and nothing "
                f"else, not {str(dict(values))[:200]}."
            )
        return cls(tuple(names), tuple(tuple(some) for some in phrases))


Classes: TypeAlias = (
    ClassList | Sequence[str] | Mapping[str, Sequence[str]] | str | os.PathLike[str]
)


def encode_classes(encoder: Encoder, classes: Classes, template: str = DEFAULT_TEMPLATE) -> Tensor:
    """Text prototypes (C, D) float32 of unit length: the mean of each class's unit prompt vectors.

    All prompts go through one call of `encoder.encode_text`.

    Raises:
        InputError: the prompts of a class cancel out, or the encoder gave no finite vector.
    """
    classes = ClassList.of(classes)
    prompts = classes.prompts(template)
    vectors = F.normalize(encoder.encode_text([p for some in prompts for p in some]).float(), dim=1)
    sizes = torch.tensor([len(some) for some in prompts], device=vectors.device)
    owner = torch.arange(len(classes), device=vectors.device).repeat_interleave(sizes)
    sums = vectors.new_zeros(len(classes), vectors.shape[1]).index_add_(0, owner, vectors)
    means = sums / sizes[:, None]
    lengths = torch.linalg.vector_norm(means, dim=1)
    lost = (~(lengths > _SHORTEST_MEAN)).nonzero().flatten().tolist()  # NaN compares false too
    if lost:
        first = lost[0]
        raise InputError(
            f"The class {classes.names[first]!r} has no direction: the vectors of its prompts "
            f"{prompts[first]} have a mean of length {lengths[first].item():.2g} ({len(lost)} of "
            f"{len(classes)} classes). Describe it by other words."
        )
    return F.normalize(means, dim=1)
