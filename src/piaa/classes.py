"""The classes to look for: their names, and the words that describe each to a text encoder."""

from __future__ import annotations

import os
import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from piaa.encoders.base import Encoder
from piaa.errors import InputError, UnknownNameError
from piaa.near_names import comparable, joined, plurals

DEFAULT_TEMPLATE: Final = "a photo of a {}"
_ACCEPTED: Final = (
    "Accepted are a list of names, a mapping of names to lists of synonyms, or the path of a UTF-8 "
    "text file with one class a line, such as 'sofa: couch, settee'"
)
_MOST_PAIRS = 10
# Unit vectors that cancel leave rounding errors of about 1e-8, not exactly 0.
_SHORTEST_MEAN = 1e-5


class ClassNameWarning(UserWarning):
    """Two classes whose names look like one and the same thing."""


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
        _check([_Entry(n, p, f"names[{i}]") for i, (n, p) in enumerate(pairs)], "names")

    @classmethod
    def of(cls, classes: Classes) -> ClassList:
        """The classes in a list, a mapping to synonyms or a text file.

        In a list or file, "sofa: couch, settee" is the class sofa, described by sofa, couch and
        settee. In a file each line is a class, "#" at its start or after a space begins a comment
        and blank lines are skipped. In a mapping colons and commas are part of the names.

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
        source, entries = _read(classes)
        _check(entries, source)
        _warn_of_near_duplicates(entries)
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


class _Entry(NamedTuple):
    """A class, and the words for where it was written."""

    name: str
    phrases: tuple[str, ...]
    where: str

    def synonyms(self) -> Iterator[tuple[str, str]]:
        """(comparable, phrase) of the phrases other than the name itself."""
        own = comparable(self.name)
        for phrase in self.phrases:
            if (key := comparable(phrase)) != own:
                yield key, phrase


def _read(classes: object) -> tuple[str, list[_Entry]]:
    if isinstance(classes, str | os.PathLike):
        return _read_file(classes)
    if isinstance(classes, Mapping):
        return "the mapping", [
            _entry(name, synonyms, f"key {name!r}") for name, synonyms in classes.items()
        ]
    if not isinstance(classes, Sequence) or isinstance(classes, bytes | bytearray):
        raise InputError(f"classes cannot be a {type(classes).__name__}. {_ACCEPTED}.")
    return "the list", [_parse(item, f"classes[{i}]") for i, item in enumerate(classes)]


def _read_file(source: str | os.PathLike[str]) -> tuple[str, list[_Entry]]:
    path = Path(source)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        one = f" For a single class write [{source!r}]." if isinstance(source, str) else ""
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"classes={str(source)!r} is not a file that can be read ({reason}). {_ACCEPTED}.{one}"
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"Line {number} of {str(path)!r} is not UTF-8: {data.splitlines()[number - 1][:60]!r}. "
            "Save the file as UTF-8; it seems to have another encoding."
        ) from error
    lines = enumerate(re.split(r"\r\n|\r|\n", text), start=1)
    stripped = ((number, re.sub(r"(^|\s)#.*", "", line).strip()) for number, line in lines)
    return f"the file {str(path)!r}", [
        _parse(line, f"line {number} of {str(path)!r}") for number, line in stripped if line
    ]


def _parse(item: object, where: str) -> _Entry:
    """ "name" or "name: synonym, synonym"."""
    if not isinstance(item, str):
        raise InputError(f"{where} must be a string, not {type(item).__name__} {item!r}.")
    name, colon, rest = item.partition(":")
    synonyms = [part.strip() for part in rest.split(",")] if colon else []
    if "" in synonyms:
        raise InputError(
            f"{where} has an empty synonym: {item!r}. Write it like 'sofa: couch, settee', or give "
            "a mapping if the colon belongs to the name."
        )
    return _entry(name, synonyms, where)


def _entry(name: object, synonyms: object, where: str) -> _Entry:
    """A class described by its name and its synonyms, or by these alone where they hold the name."""
    if not isinstance(name, str):
        raise InputError(f"{where} must be a string, not {type(name).__name__}.")
    if (
        isinstance(synonyms, str)
        or not isinstance(synonyms, Sequence)
        or not all(isinstance(synonym, str) for synonym in synonyms)
    ):
        raise InputError(
            f"The synonyms of {name!r} must be a list of strings, not {synonyms!r}. Write "
            f"{{{name!r}: ['first', 'second']}}."
        )
    name, *tidy = (" ".join(text.split()) for text in (name, *synonyms))
    return _Entry(name, tuple(tidy) if name in tidy else (name, *tidy), where)


def _check(entries: Sequence[_Entry], source: str) -> None:
    if not entries:
        raise InputError(f"There is no class: {source} is empty. {_ACCEPTED}.")
    names: dict[str, _Entry] = {}
    synonyms: dict[str, _Entry] = {}
    for entry in entries:
        if not entry.phrases:
            raise InputError(f"The class {entry.name!r} ({entry.where}) has no phrase.")
        for text in (entry.name, *entry.phrases):
            _check_text(text, entry.where)
        other = names.setdefault(comparable(entry.name), entry)
        if other is not entry:
            raise InputError(
                f"The class {entry.name!r} is there twice: {other.where} is {other.name!r}, "
                f"{entry.where} is {entry.name!r} (case and spaces do not count). Remove one, or "
                "make one a synonym: 'sofa: couch'."
            )
        if len(set(map(comparable, entry.phrases))) < len(entry.phrases):
            raise InputError(
                f"{entry.where} describes {entry.name!r} twice by the same phrase: "
                f"{', '.join(map(repr, entry.phrases))}. Remove one."
            )
        for key, phrase in entry.synonyms():
            other = synonyms.setdefault(key, entry)
            if other is not entry:
                raise InputError(
                    f"The phrase {phrase!r} describes two classes, {other.name!r} ({other.where}) "
                    f"and {entry.name!r} ({entry.where}). Remove it from one of them."
                )


def _check_text(text: object, where: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{where} must be a string, not {type(text).__name__} {text!r}.")
    if not text.strip():
        raise InputError(f"{where} has an empty name: {text!r}. Give it one, or remove it.")
    # Control characters and halves of surrogate pairs come from a wrong encoding (UTF-16, say).
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in text):
        raise InputError(
            f"{where} holds a character that is not text: {text!r}. A file must be UTF-8."
        )


def _warn_of_near_duplicates(entries: Sequence[_Entry]) -> None:
    owners: dict[str, _Entry] = {comparable(entry.name): entry for entry in entries}
    pairs: dict[tuple[str, str], str] = {}

    def note(one: _Entry, other: _Entry, reason: str) -> None:
        if other is not one:
            pairs.setdefault((min(one.where, other.where), max(one.where, other.where)), reason)

    for entry in entries:
        for key, phrase in entry.synonyms():
            if other := owners.get(key):
                where = f"{entry.name!r} ({entry.where})"
                note(entry, other, f"{phrase!r} ({other.where}) is a synonym of {where}")
    written = {key: (e, p) for e in entries for key, p in e.synonyms()}
    written |= {comparable(e.name): (e, e.name) for e in entries}
    together = {joined(key): found for key, found in reversed(written.items())}
    for key, (entry, phrase) in written.items():
        for near in (together.get(joined(key)), *map(written.get, plurals(key))):
            if near is not None:
                other, word = near
                where = f"{word!r} ({other.where}) look alike"
                note(entry, other, f"{phrase!r} ({entry.where}) and {where}")
    if pairs:
        shown = list(pairs.values())
        more = f"; and {len(shown) - _MOST_PAIRS} more" if len(shown) > _MOST_PAIRS else ""
        warnings.warn(
            f"Classes that may mean the same thing: {'; '.join(shown[:_MOST_PAIRS])}{more}. They "
            "will compete for the same evidence; make one a synonym of the other, or remove it.",
            ClassNameWarning,
            stacklevel=3,
        )
