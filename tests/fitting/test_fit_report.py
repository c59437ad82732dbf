"""Which classes of a fit are named, and with what words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from piaa.fitting.fit_report import ClassReport, FitReport

SURE = ClassReport(
    name="cat",
    bank=200,
    images=30,
    kept=100,
    moved=3,
    text_fallback=False,
    evidence=0.9,
    presence=1.0,
    learned_weight=0.6,
    prevalence=0.1,
    threshold=-0.5,
    group=0.0,
)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({}, ""),
        ({"bank": 0}, "no evidence"),
        ({"text_fallback": True}, "no evidence"),
        ({"evidence": 0.09}, "hardly any evidence"),
        ({"evidence": 0.39}, "little evidence"),
        ({"evidence": 0.4}, ""),
        # Where the global vector cannot tell any class, none is seen: that says nothing.
        ({"presence": 0.0}, ""),
    ],
)
def test_what_a_class_is_named_for(changes: dict[str, float], warning: str) -> None:
    row = replace(SURE, **changes)
    assert row.warning.startswith(warning)
    assert bool(row.warning) == bool(warning)
    other = replace(SURE, name="dog")
    assert FitReport(50, (row, other)).without_evidence == (["cat"] if warning else [])
