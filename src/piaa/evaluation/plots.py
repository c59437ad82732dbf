"""Plots of tables, sweeps and learning curves. Needs matplotlib (the extra `report`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from piaa.atomic import whole_file
from piaa.errors import InputError
from piaa.evaluation.curves import Curve
from piaa.evaluation.tables import Filled, find, headings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER_COLOR, OUR_COLOR = "#9a9a9a", "#a3297a"


def check_matplotlib() -> None:
    """Before any work that ends in a plot."""
    if find_spec("matplotlib") is None:
        raise InputError("Plots need matplotlib: pip install 'piaa[report]'.")


def new_figure(width: float, height: float, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure without any window or global state behind it, and its axes side by side."""
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def save_figure(figure: Figure, path: Path) -> None:
    """Write by the suffix; the same figure gives the same bytes."""
    import matplotlib

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {}
    with matplotlib.rc_context({"svg.hashsalt": "piaa"}), whole_file(path) as temporary:
        figure.savefig(temporary, dpi=110, metadata=metadata, format=path.suffix[1:])


def plot_filled(table: str, filled: Sequence[Filled], path: Path, *, title: str) -> None:
    """The picture that suits a table: lines for the sweeps, bars for the others."""
    sweeps = {"bank-size": ("bank size K", True), "alpha": ("alpha, weight of the patches", False)}
    if table not in sweeps:
        plot_table(filled, path, title=title)
        return
    label, logarithmic = sweeps[table]
    series: dict[str, dict[float, float]] = {}
    for one in filled:
        if one.ours is not None:
            place = float(one.cell.row.split("=")[1])
            series.setdefault(one.cell.column, {})[place] = one.ours
    plot_sweep(series, path, x_label=label, logarithmic=logarithmic)


def plot_table(filled: Sequence[Filled], path: Path, *, title: str) -> None:
    """Bars of paper and ours, a group a row and a panel a column."""
    rows, columns = headings(filled)
    height = 1.2 + 0.35 * len(rows)
    figure, axes = new_figure(2.5 + 2.6 * len(columns), height, columns=len(columns))
    for place, (axis, column) in enumerate(zip(axes, columns, strict=True)):
        for line, row in enumerate(rows):
            one = find(filled, row, column)
            if one is None:
                continue
            if one.cell.paper is not None:
                axis.barh(line - 0.2, one.cell.paper, 0.38, color=PAPER_COLOR)
            if one.ours is not None:
                axis.barh(line + 0.2, one.ours, 0.38, color=OUR_COLOR)
        axis.set_yticks(range(len(rows)), rows if place == 0 else [""] * len(rows), fontsize=8)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_title(column, fontsize=9)
        axis.tick_params(axis="x", labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{title}: grey as printed, colored as measured here", fontsize=10)
    save_figure(figure, path)


def plot_sweep(
    series: Mapping[str, Mapping[float, float]],
    path: Path,
    *,
    x_label: str,
    levels: Mapping[str, float] | None = None,
    logarithmic: bool = False,
) -> None:
    """mAP in percent against a setting, one line a series; `levels` are values that do not depend on it."""
    figure, (axis,) = new_figure(6, 3.6)
    for name, points in series.items():
        places = sorted(points)
        axis.plot(places, [points[x] for x in places], marker="o", markersize=4, label=name)
    for name, value in (levels or {}).items():
        axis.axhline(value, linestyle="--", linewidth=1, color=PAPER_COLOR)
        axis.annotate(
            name, (0.01, value), xycoords=("axes fraction", "data"), fontsize=8, va="bottom"
        )
    if logarithmic:
        axis.set_xscale("log")
    finish_axis(axis, x_label, "mAP, %")
    save_figure(figure, path)


def plot_curve(curve: Curve, path: Path) -> None:
    """mAP against the number of images, every seed a dot."""
    figure, (axis,) = new_figure(6, 3.6)
    rows = curve.rows()
    for size, values in zip(curve.sizes, curve.maps, strict=True):
        axis.plot(
            [size] * len(values), [100 * v for v in values], ".", color=PAPER_COLOR, markersize=5
        )
    axis.plot(
        [row["images"] for row in rows],
        [100 * row["mean"] for row in rows],
        marker="o",
        markersize=4,
        color=OUR_COLOR,
        label="mean over seeds",
    )
    axis.axhline(
        100 * curve.zero_shot, linestyle="--", color="black", linewidth=1, label="zero-shot"
    )
    axis.set_xscale("log")
    axis.set_xticks(curve.sizes, [str(size) for size in curve.sizes], fontsize=8)
    axis.minorticks_off()
    finish_axis(axis, "unlabelled images to learn from", "mAP, %")
    save_figure(figure, path)


def finish_axis(axis: Axes, x_label: str, y_label: str) -> None:
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=8, frameon=False)
