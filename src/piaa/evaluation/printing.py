"""An evaluation, a plan and a learning curve as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.table import Table

from piaa.evaluation.curves import Curve
from piaa.evaluation.evaluating import Evaluation
from piaa.evaluation.planning import Step


def summary_table(evaluation: Evaluation) -> Table:
    """One line a method; accuracies in percent."""
    dataset = evaluation.dataset
    table = Table(
        title=f"{dataset.name}: {len(dataset.test)} test images, {len(dataset.classes)} classes, "
        f"{evaluation.encoder.spec.name}"
    )
    sized = evaluation.measured[0].by_size is not None
    table.add_column("method")
    for heading in ("mAP", "95 %", "CF1", "OF1"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("small", "medium", "large") if sized else ():
        table.add_column(heading, justify="right")
    table.add_column("images/s", justify="right")
    table.add_column("passes")
    table.add_column("first minus it, 95 %", justify="right", no_wrap=True)
    for one, gap in zip(evaluation.measured, evaluation.versus, strict=True):
        sizes = [_percent(value) for value in (one.by_size or {}).values()] if sized else []
        table.add_row(
            one.label,
            _percent(one.map.value),
            f"{100 * one.map.low:.1f} to {100 * one.map.high:.1f}",
            "" if one.f1 is None else _percent(one.f1.cf1),
            "" if one.f1 is None else _percent(one.f1.of1),
            *sizes,
            f"{one.images_per_second:.1f}",
            one.forward_passes,
            "" if gap is None else f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}",
        )
    return table


def class_table(evaluation: Evaluation) -> Table:
    """AP of each class in percent."""
    labels = (evaluation.dataset.labels == 1).sum(0).tolist()
    table = Table(title="Average precision of each class")
    table.add_column("class")
    table.add_column("positives", justify="right")
    for one in evaluation.measured:
        table.add_column(one.label, justify="right")
    for name, count in zip(evaluation.dataset.classes, labels, strict=True):
        values = [_percent(one.per_class[name]) for one in evaluation.measured]
        table.add_row(name, str(count), *values)
    return table


def curve_table(curve: Curve) -> Table:
    table = Table(title=f"Learning curve (zero-shot: {_percent(curve.zero_shot)})")
    for heading in ("images", "mean mAP", "standard deviation", "least", "greatest"):
        table.add_column(heading, justify="right")
    for row in curve.rows():
        numbers = [_percent(row[key]) for key in ("mean", "sd", "min", "max")]
        table.add_row(str(row["images"]), *numbers)
    return table


def plan_table(steps: Sequence[Step], spell: Callable[[float], str]) -> Table:
    """What would be done; `spell` turns seconds into words."""
    table = Table(title="What would be computed")
    table.add_column("step")
    table.add_column("images", justify="right")
    table.add_column("about", justify="right")
    for step in steps:
        known = not math.isnan(step.seconds)
        table.add_row(step.what, f"{step.images:,}", spell(step.seconds) if known else "not known")
    total = sum(step.seconds for step in steps if not math.isnan(step.seconds))
    table.add_section()
    table.add_row("in all", "", spell(total))
    return table


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.1f}"
