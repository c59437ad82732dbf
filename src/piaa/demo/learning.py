"""Learn from a folder of anything: which names of a long list are in it, and then these."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from piaa.classes.class_list import ClassList
from piaa.fitting.fit_report import EvidenceWarning, FitReport
from piaa.images import OnError
from piaa.recognizer import Recognizer

THERE = 0.5  # presence of the names that are kept


@dataclass(frozen=True)
class Learned:
    """The fitted recognizer of the names that are there, and the fit of all names that told which."""

    recognizer: Recognizer
    first_report: FitReport


def learn_what_is_there(
    recognizer: Recognizer,
    photographs: Iterable[Path],
    *,
    also: Collection[str] = (),
    on_error: OnError | None = None,
) -> Learned:
    """Fit on photographs, drop the names they show no trace of, and fit the others again.

    Every class's threshold is where its own scores part. A name that is nowhere has scores that part
    too, by noise. Fitting lifts thresholds of classes with little presence, but those of a long list
    still become tags, about one a photograph too many; without their names the others are cut better.

    Args:
        recognizer: not fitted; few enough photographs that it can keep their features in memory.
        also: names that stay in any case.
    """
    with warnings.catch_warnings():
        # Most names of a long list are not there; those are the ones that are dropped.
        warnings.simplefilter("ignore", EvidenceWarning)
        first = recognizer.fit(photographs, on_error=on_error)
        there = {row.name for row in first.classes if row.presence >= THERE}
        kept = [name for name in recognizer.classes.names if name in there | set(also)]
        if 1 < len(kept) < len(recognizer.classes):
            phrases = dict(zip(recognizer.classes.names, recognizer.classes.phrases, strict=True))
            present = ClassList(tuple(kept), tuple(phrases[name] for name in kept))
            recognizer = recognizer.with_classes(present)
    return Learned(recognizer, first)
