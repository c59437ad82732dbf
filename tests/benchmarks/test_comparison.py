"""The guard that `make bench-check` is: what it lets pass and what it does not."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


comparison = load("comparison")


def test_a_fall_within_the_tolerance_holds_and_one_beyond_does_not() -> None:
    baseline = {"fast": 2.0, "faster": 10.0}
    held = comparison.compare(baseline, {"fast": 1.7001, "faster": 12.0})
    assert held.holds
    assert (held.fell, held.gone, held.new) == ([], [], [])
    fallen = comparison.compare(baseline, {"fast": 1.69, "faster": 8.4})
    assert not fallen.holds
    assert fallen.fell == ["fast", "faster"]


def test_a_row_that_is_not_measured_fails_and_a_new_one_passes() -> None:
    outcome = comparison.compare({"a": 1.0}, {"b": 1.0})
    assert (outcome.fell, outcome.gone, outcome.new) == ([], ["a"], ["b"])
    assert not outcome.holds
    assert comparison.compare({}, {"b": 1.0}).holds


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_ratio_is_an_error(value: float) -> None:
    for pair in (({"a": value}, {"a": 1.0}), ({"a": 1.0}, {"a": value})):
        with pytest.raises(ValueError, match="ratio of 'a'"):
            comparison.compare(*pair)


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, math.nan])
def test_a_tolerance_that_forgives_all_is_an_error(tolerance: float) -> None:
    with pytest.raises(ValueError, match="tolerance"):
        comparison.compare({}, {}, tolerance=tolerance)


def test_measuring_again_keeps_the_better_of_two() -> None:
    first = {"a": 1.0, "b": 3.0, "c": 2.0}
    assert comparison.better_of(first, {"a": 2.0, "b": 1.0}) == {"a": 2.0, "b": 3.0, "c": 2.0}


def test_the_table_shows_the_change() -> None:
    rows = comparison.table({"a": 3.0, "b": 1.0}, {"a": 2.0})[2:]
    assert rows == ["| a | 3.00 | 2.00 | +50 % |", "| b | 1.00 |  | new |"]


def test_the_committed_baseline_is_one() -> None:
    saved = json.loads((FOLDER / "baseline.json").read_text())
    assert saved["machine"]
    rows = [row for part in saved["ratios"].values() for row in part]
    assert len(set(rows)) == len(rows)
    values = {row: value for part in saved["ratios"].values() for row, value in part.items()}
    assert comparison.compare(values, values).holds


def test_the_baseline_has_rows_of_every_benchmark() -> None:
    """A benchmark without a row in it would never be guarded."""
    tree = ast.parse((FOLDER / "all.py").read_text())
    (named,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "BENCHMARKS"
    )
    rows = json.loads((FOLDER / "baseline.json").read_text())["ratios"]
    assert sorted(rows) == sorted(named)
    assert all(rows.values())
