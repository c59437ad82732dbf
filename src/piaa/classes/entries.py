"""Class lists as people write them: read into entries, checked, and looked over for near duplicates."""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from piaa.classes.near_names import comparable, joined, plurals
from piaa.errors import InputError
from piaa.shipped import class_list_file, list_class_lists

_ACCEPTED: Final = (
    "Accepted are a list of names, a mapping of names to lists of synonyms, the name of a list that "
    "ships with piaa, or the path of a UTF-8 text file with one class a line, such as "
    "'sofa: couch, settee'"
)
_MOST_PAIRS = 10


class ClassNameWarning(UserWarning):
    """Two classes whose names look like one and the same thing."""


class Entry(NamedTuple):
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


def read_classes(classes: object) -> tuple[str, list[Entry]]:
    """The classes as entries, and the words for where they were found."""
    if isinstance(classes, str | os.PathLike):
        if (shipped := class_list_file(classes)) is not None:
            return _parse_lines(f"the list {classes!r}", shipped.read_text(encoding="utf-8"))
        return _read_file(classes)
    if isinstance(classes, Mapping):
        return "the mapping", [
            _entry(name, synonyms, f"key {name!r}") for name, synonyms in classes.items()
        ]
    if not isinstance(classes, Sequence) or isinstance(classes, bytes | bytearray):
        raise InputError(f"classes cannot be a {type(classes).__name__}. {_ACCEPTED}.")
    return "the list", [_parse(item, f"classes[{i}]") for i, item in enumerate(classes)]


def check_entries(entries: Sequence[Entry], source: str) -> None:
    if not entries:
        raise InputError(f"There is no class: {source} is empty. {_ACCEPTED}.")
    names: dict[str, Entry] = {}
    synonyms: dict[str, Entry] = {}
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


def warn_of_near_duplicates(entries: Sequence[Entry]) -> None:
    owners: dict[str, Entry] = {comparable(entry.name): entry for entry in entries}
    pairs: dict[tuple[str, str], str] = {}

    def note(one: Entry, other: Entry, reason: str) -> None:
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
            stacklevel=3,  # who called ClassList.of
        )


def _read_file(source: str | os.PathLike[str]) -> tuple[str, list[Entry]]:
    path = Path(source)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = getattr(error, "strerror", None) or error
        problem = f"classes={str(source)!r} is not a file that can be read ({reason})"
        if not isinstance(source, str):
            raise InputError(f"{problem}. {_ACCEPTED}.") from error
        known = list_class_lists()
        near = difflib.get_close_matches(source.lower(), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"{problem}, and no class list that ships with piaa ({', '.join(known)}).{hint} "
            f"{_ACCEPTED}. For a single class write [{source!r}]."
        ) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"Line {number} of {str(path)!r} is not UTF-8: {data.splitlines()[number - 1][:60]!r}. "
            "Save the file as UTF-8; it seems to have another encoding."
        ) from error
    return _parse_lines(f"the file {str(path)!r}", text)


def _parse_lines(source: str, text: str) -> tuple[str, list[Entry]]:
    lines = enumerate(re.split(r"\r\n|\r|\n", text), start=1)
    stripped = ((number, re.sub(r"(^|\s)#.*", "", line).strip()) for number, line in lines)
    return source, [_parse(line, f"line {n} of {source}") for n, line in stripped if line]


def _parse(item: object, where: str) -> Entry:
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


def _entry(name: object, synonyms: object, where: str) -> Entry:
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
    return Entry(name, tuple(tidy) if name in tidy else (name, *tidy), where)


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
