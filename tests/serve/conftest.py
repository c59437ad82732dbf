"""Servers that the tests of this folder share; starting one takes a second or two."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("python_multipart", reason="the extra serve is not installed")

from servers import TOKEN, Served, running

from fake_encoder import CLASSES, SMALL_BANKS, ColorEncoder, pictures
from piaa import Recognizer
from piaa.fitting.fit_report import EvidenceWarning
from piaa.serve.limits import MIB, Limits

# Small, so that passing a limit takes the tests no time.
LIMITS = Limits(
    body_bytes=MIB,
    bodies_bytes=4 * MIB,
    images=8,
    pixels=1_000_000,
    classes=50,
    head_seconds=1.0,
    upload_seconds=1.5,
    decoders=2,
    decode_seconds=5.0,
    connections=40,
)


@pytest.fixture(scope="session")
def recognizer() -> Recognizer:
    """Red, green and blue, fitted."""
    fitted = Recognizer(ColorEncoder(), CLASSES, config=SMALL_BANKS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvidenceWarning)
        fitted.fit(pictures(30))
    return fitted


@pytest.fixture(scope="session")
def served(recognizer: Recognizer) -> Iterator[Served]:
    with running(recognizer, LIMITS) as server:
        yield server


@pytest.fixture(scope="session")
def guarded() -> Iterator[Served]:
    """Red and blue, zero-shot, behind a token; remembers nothing."""
    zero_shot = Recognizer(ColorEncoder(), ["red", "blue"])
    with running(zero_shot, Limits(decoders=1, remembered_bytes=0), token=TOKEN) as server:
        yield server
