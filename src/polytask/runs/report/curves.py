"""Curves over frames or minutes: the mean of the seeds of a setting, with a band; and the tasks of one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polytask.files import LogRow
from polytask.runs.report.canvas import (
    NO_MATPLOTLIB,
    engineering,
    has_matplotlib,
    legend_below,
    line_style,
    new_figure,
    save,
    styled,
    wrapped,
)
from polytask.runs.report.pool import Pool
from polytask.statistics import Array, student_quantile

POINTS = 200  # of a drawn curve
NO_VALUES = np.zeros(0)
BANDS = {"range": "lowest to highest seed", "interval": "95 % interval over seeds"}


def draw_curves(pools: Sequence[Pool], metric: str, over: str, title: str, band: str) -> Any:
    """Draw a logged metric of all settings.

    Args:
        pools: The settings.
        metric: The name of the metric.
        over: The axis: "frames" or "minutes".
        title: The name of the vertical axis.
        band: What the band around a mean shows, a key of `BANDS`.

    Returns:
        The figure, or the reason why there is none.
    """
    drawn = {one.name: aligned([log.rows for log in one.logs], metric, over) for one in pools}
    if not any(len(at) for at, _ in drawn.values()):
        return f"no run logged {metric} twice"
    figure, ((axes,),) = new_figure(3.2)
    for index, (name, (at, values)) in enumerate(drawn.items()):
        if not len(at):
            continue
        middle = values.mean(axis=0)
        (line,) = axes.plot(at, middle, label=wrapped(name), **line_style(index))
        if len(values) > 1:
            low, high = _band(values, band)
            axes.fill_between(at, low, high, color=line.get_color(), alpha=0.15, lw=0)
    has_bands = any(len(values) > 1 for _, values in drawn.values())
    axes.set(xlabel=over, ylabel=f"{title}\n(band: {BANDS[band]})" if has_bands else title)
    if metric.endswith("success"):
        axes.set_ylim(-0.02, 1.02)
    if over == "frames":
        engineering(axes.xaxis)
    legend_below(figure, axes)
    return figure


def _band(values: Array, kind: str) -> tuple[Array, Array]:
    """Return the lower and the upper edge of the band around the mean of some seeds (S, F)."""
    if kind == "range":
        return values.min(axis=0), values.max(axis=0)
    seeds = len(values)
    half = student_quantile(seeds - 1) * values.std(axis=0, ddof=1) / np.sqrt(seeds)
    return values.mean(axis=0) - half, values.mean(axis=0) + half


def aligned(
    seeds: Sequence[Sequence[LogRow]], metric: str, over: str = "frames", at: Array | None = None
) -> tuple[Array, Array]:
    """Interpolate a metric of the runs that logged it at the same places (F,), and return these and the values (S, F).

    Without `at` the places lie between the latest first and the earliest last value, so that no curve is extended.
    """
    known = [found for rows in seeds if len((found := _points(rows, metric, over))[0])]
    if not known:
        return NO_VALUES, np.zeros((0, 0))
    first, last = max(x[0] for x, _ in known), min(x[-1] for x, _ in known)
    if at is None:
        at = np.linspace(first, last, POINTS) if first < last else NO_VALUES
    return at, np.array([np.interp(at, x, y) for x, y in known])


def _points(rows: Sequence[LogRow], metric: str, over: str) -> tuple[Array, Array]:
    """Return where a run logged a metric, and its values."""
    key, unit = ("seconds", 60.0) if over == "minutes" else (over, 1.0)
    pairs = [(x / unit, y) for row in rows if (x := row.get(key)) is not None and (y := row.get(metric)) is not None]
    points = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def draw_run(rows: Sequence[LogRow], tasks: Sequence[str], path: Path) -> str:
    """Draw the training success of one run, per task and on average, and return the line to print."""
    if not has_matplotlib():
        return NO_MATPLOTLIB
    if not rows:
        return "no figure: the run has no rows of metrics"
    with styled():
        figure, ((axes,),) = new_figure(3.2, width=7.0)
        for index, task in enumerate(tasks):
            axes.plot(*_points(rows, f"success/{task}", "frames"), label=task, **{**line_style(index), "lw": 1.0})
        axes.plot(*_points(rows, "success", "frames"), label="mean", lw=2.4, color="black")
        axes.set(xlabel="frames", ylabel="training success", ylim=(-0.02, 1.02))
        engineering(axes.xaxis)
        legend_below(figure, axes)
    save(figure, path)
    return f"curves: {path}"
