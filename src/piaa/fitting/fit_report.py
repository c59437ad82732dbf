"""What a fit found, class by class: nothing happens silently."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from piaa.classes.class_list import ClassList
from piaa.errors import InputError
from piaa.fitting.fitted import Fitted

# A class with less has next to nothing learnt in its score,
LEAST_EVIDENCE = 0.1
# and below this, what was found may well be a look-alike.
ENOUGH_EVIDENCE = 0.4


class EvidenceWarning(UserWarning):
    """Classes that the fitted images show no evidence of."""


@dataclass(frozen=True)
class ClassReport:
    """One class of a fit.

    Attributes:
        bank: patches in its bank; images: different images they come from.
        kept: patches behind its mean after purification; moved: patches of its bank that another class got.
        text_fallback: no patch was kept, and its text prototype took the place of its mean.
        evidence: in [0, 1], how far the learnt classifier finds images of the class that seem to hold it.
        presence: in [0, 1], how far the branches agree that the class is in the images at all.
        learned_weight: weight of the two learnt branches in its score.
        prevalence: share of the images that are above its threshold.
        threshold: where its evidence (log-odds) is cut; a score of 0.5.
        group: in [0, 1], how far it was learnt from a group of patches that got its name, and not
            from its bank.
    """

    name: str
    bank: int
    images: int
    kept: int
    moved: int
    text_fallback: bool
    evidence: float
    presence: float
    learned_weight: float
    prevalence: float
    threshold: float
    group: float

    @property
    def warning(self) -> str:
        if self.text_fallback or (self.bank == 0 and self.group < LEAST_EVIDENCE):
            return "no evidence: stays with its text"
        if self.evidence < LEAST_EVIDENCE:
            return "hardly any evidence: stays with its text"
        if self.evidence < ENOUGH_EVIDENCE:
            return "little evidence: in few of these images, or in none"
        return ""


@dataclass(frozen=True)
class FitReport:
    """A fit as a whole. `str(report)` is a table.

    Attributes:
        unnamed: share of the images that seem to show none of the classes; None where no other names were
            there to tell (`Recognizer(others=...)`).
    """

    n_images: int
    classes: tuple[ClassReport, ...]
    unnamed: float | None = None

    @property
    def without_evidence(self) -> list[str]:
        """Names of the classes that the collection shows little or no evidence of."""
        return [row.name for row in self.classes if row.warning]

    def __str__(self) -> str:
        width = max([5, *(len(row.name) for row in self.classes)])
        grouped = sum(row.group >= 0.5 for row in self.classes)
        by_groups = f", {grouped} learnt from groups of patches" if grouped else ""
        none = "" if self.unnamed is None else f", none of them in about {self.unnamed:.0%}"
        lines = [
            f"{self.n_images} images, {len(self.classes)} classes{by_groups}{none}",
            f"{'class':{width}}  bank images  kept moved evidence presence learned   share threshold",
        ]
        for row in self.classes:
            lines.append(
                f"{row.name:{width}} {row.bank:5d} {row.images:6d} {row.kept:5d} {row.moved:5d} "
                f"{row.evidence:8.2f} {row.presence:8.2f} {row.learned_weight:7.2f} "
                f"{100 * row.prevalence:6.1f}% {row.threshold:9.2f}  {row.warning}".rstrip()
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> FitReport:
        try:
            rows = tuple(_checked(ClassReport(**row)) for row in values["classes"])
            unnamed = values["unnamed"]
            if unnamed is not None and not 0 <= unnamed <= 1:
                raise ValueError(f"unnamed is {unnamed!r}")
            return FitReport(int(values["n_images"]), rows, unnamed)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"This is no saved fit report: {error}.") from error

    @staticmethod
    def of(fitted: Fitted, classes: ClassList) -> FitReport:
        bank, weights = fitted.bank, fitted.scorer.weights
        found = (
            bank.bank,
            bank.images,
            bank.kept,
            bank.moved,
            bank.text_fallback,
            weights.evidence,
            weights.presence,
            weights.learned + weights.whole,
            fitted.prevalence,
            fitted.scorer.thresholds,
            fitted.group,
        )
        # What was found of other names than the classes' comes last.
        mine = (values[: len(classes)].tolist() for values in found)
        columns = zip(classes.names, *mine, strict=True)
        rows = tuple(ClassReport(*column) for column in columns)
        return FitReport(fitted.n_images, rows, fitted.unnamed)


def _checked(row: ClassReport) -> ClassReport:
    """The row, if its values are of the types that it says: from a file they may be anything."""
    kinds = {"str": str, "int": int, "bool": bool, "float": int | float}
    for field in fields(row):
        value = getattr(row, field.name)
        if not isinstance(value, kinds[str(field.type)]):
            raise TypeError(f"{field.name} is {value!r}")
    return row


def warn_of_missing(report: FitReport, *, stacklevel: int) -> None:
    """Name the classes that the collection shows little or no evidence of, as a warning."""
    if lost := report.without_evidence:
        warnings.warn(
            f"{len(lost)} of {len(report.classes)} classes have little or no evidence in these images, see "
            f"the report: {', '.join(lost)}.",
            EvidenceWarning,
            stacklevel=stacklevel,
        )
