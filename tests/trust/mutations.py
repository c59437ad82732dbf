"""Damage, reproducible from a seed: what disks, networks and strangers do to files."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random
from typing import Any

_INTEGERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
_LONG_INTEGERS = (0, 1, 2**20, 2**31, 2**32, 2**40, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TOKENS = (
    b"\0", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n\n", b"\r", b",", b":", b";",
    b"#", b'"', b"'", b"{", b"}", b"[", b"]", b"[" * 3000, b'{"a":' * 3000, b"<a>" * 3000, b"../", b"/",
    b"\\", b"..", b"-1", b"1e999", b"NaN", b"-Infinity", b"9" * 400, b"9" * 5000, b"null", b"true",
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"<?xml version='1.0' encoding='utf-7'?>", b"A" * 300, b"\x1f\x8b",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"),
    "", "\0", "..", "../../x", "a" * 300, "\ud800", "{}", [], {}, [[]], [None], {"a": 1}, ["a", "a"],
)  # fmt: skip


def mutate(data: bytes, rng: Random, donors: Sequence[bytes]) -> bytes:
    """One to a dozen changes of bytes: flips, cuts, splices with a donor, tampered lengths, tokens."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 12))):
        data = _change(bytearray(data), rng, donors)
    return data


def _change(data: bytearray, rng: Random, donors: Sequence[bytes]) -> bytes:
    # Headers, at either end, decide what a reader does: half of all changes go there.
    near = rng.choice((len(data), len(data), min(64, len(data)), min(600, len(data))))
    at = rng.randrange(near + 1)
    if rng.random() < 0.1:
        at = len(data) - at
    span = min(rng.choice((1, 2, 8, 64, 1024)), len(data) - at)
    match rng.randrange(9):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(data):
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        case 2:
            del data[at:]
        case 3:
            del data[at : at + span]
        case 4:
            data[at:at] = data[at : at + span] * rng.choice((1, 2, 50))
        case 5:
            donor = rng.choice(donors)
            start = rng.randrange(len(donor) + 1)
            data[at : at + rng.choice((0, span, len(data)))] = donor[
                start : start + rng.choice((span, len(donor)))
            ]
        case 6:
            size, known = rng.choice(((2, _INTEGERS), (4, _INTEGERS), (8, _LONG_INTEGERS)))
            number = rng.choice(known) % 256**size
            data[at : at + size] = number.to_bytes(size, rng.choice(("little", "big")))
        case 7:
            data[at:at] = rng.choice(_TOKENS)
        case _:
            data[at : at + span] = rng.choice(_TOKENS)
    return bytes(data)


def mutate_tree(value: Any, rng: Random) -> Any:
    """A JSON value with one to three of its parts replaced, removed, renamed or doubled."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = _change_tree(value, rng)
    return value


def _change_tree(value: Any, rng: Random) -> Any:
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return copy.deepcopy(rng.choice(_VALUES))
    if isinstance(value, list):
        place = rng.randrange(len(value))
        if rng.random() < 0.2:
            value.insert(place, copy.deepcopy(rng.choice(value)))
        elif rng.random() < 0.2:
            del value[place]
        else:
            value[place] = _change_tree(value[place], rng)
        return value
    key = rng.choice(list(value))
    if rng.random() < 0.15:
        del value[key]
    elif rng.random() < 0.15:
        value[f"{key}x"] = value.pop(key)
    else:
        value[key] = _change_tree(value[key], rng)
    return value
