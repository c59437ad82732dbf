"""How much a service takes on, in one place."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Final

from piaa.errors import InputError

MIB: Final = 2**20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a service; whatever goes beyond one is refused with a problem that names it.

    One request:
        body_bytes: size of its body.
        images: pictures in it.
        pixels: of one picture, known from its header before any is decoded.
        classes: names in an ad-hoc list; name_length: characters of one.
        head_seconds: for a connection to send a request's head; upload_seconds: for its body.
        deadline_seconds: from its last byte to its answer.

    Decoding:
        decoders: processes that decode.
        decode_seconds: for one picture.
        decode_bytes: memory a decoder may use on top of what it starts with.

    All requests together:
        connections: open at once.
        bodies_bytes: bodies in memory at once.
        queue: pictures taken on and not yet answered.
        batch: pictures encoded together; the caches of a CPU prefer a few, a GPU likes dozens.
        encoders: batches encoded at once; with one alone, cores wait for its slowest thread.
        wait_seconds: how long a batch waits for pictures that are already being decoded.
        remembered_bytes: features of recent pictures, so that the same picture need not be sent,
            decoded and encoded again; 0 keeps none.
        remembered_words: classes whose text features are kept.
    """

    body_bytes: int = 64 * MIB
    images: int = 64
    pixels: int = 50_000_000
    classes: int = 1_000
    name_length: int = 200
    head_seconds: float = 10.0
    upload_seconds: float = 60.0
    deadline_seconds: float = 30.0
    decoders: int = max(1, os.cpu_count() or 1)
    decode_seconds: float = 10.0
    decode_bytes: int = 1024 * MIB
    connections: int = 512
    bodies_bytes: int = 512 * MIB
    queue: int = 128
    batch: int = 4
    encoders: int = 2
    wait_seconds: float = 0.003
    remembered_bytes: int = 128 * MIB
    remembered_words: int = 10_000

    def __post_init__(self) -> None:
        may_be_zero = {"wait_seconds", "remembered_bytes"}
        for field in fields(self):
            value = getattr(self, field.name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole and not (field.name.endswith("_seconds") and isinstance(value, float)):
                raise InputError(f"The limit {field.name} must be a number, not {value!r}.")
            if not (value > 0 or (value == 0 and field.name in may_be_zero)):
                raise InputError(f"The limit {field.name} must be above 0, not {value!r}.")
        for small, large in (("images", "queue"), ("body_bytes", "bodies_bytes")):
            if getattr(self, small) > getattr(self, large):
                raise InputError(
                    f"A request may hold {small}={getattr(self, small):,}, more than all requests "
                    f"together, {large}={getattr(self, large):,}. Raise {large} or lower {small}."
                )
