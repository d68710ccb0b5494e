"""The figure of the tasks' gradients: cosines between them, and their norms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytask.files import LogRow
from polytask.runs.report.canvas import COLORS, legend_below
from polytask.runs.report.curves import aligned
from polytask.runs.report.pool import Pool
from polytask.runs.report.task_panels import TaskPanel, draw_values, panel_grid, task_styles, too_many
from polytask.statistics import Array

COSINES = ("min", "mean", "max")  # logged statistics of the cosines between the gradients of two tasks
_TRANSPARENT = 0.2
HEIGHTS = (1.4, 1.6)  # inches of cosines and norms


@dataclass(frozen=True)
class ConflictPanel(TaskPanel):
    """Conflicts between the task gradients of one network; the values of a task are the norms of its gradient.

    Attributes:
        cosine: Smallest, mean and largest cosine between the gradients of two tasks. (3, F)
    """

    cosine: Array


def conflict_panels(curves: dict[str, list[list[LogRow]]]) -> list[ConflictPanel]:
    """Return a panel per setting and network (actor, then critic).

    There is none where a seed logged no conflicts, or the seeds logged them at frames that have nothing in common.
    """
    panels = []
    for setting, seeds in curves.items():
        for group in ("actor", "critic"):
            prefix = f"conflict/{group}"
            logged = [
                next((row for row in rows if row.get(f"{prefix}/cosine_mean") is not None), None) for rows in seeds
            ]
            if None in logged:
                continue
            names = [name for name in logged[0] or () if name.startswith(f"{prefix}/norms/")]
            frames = _frames(seeds, f"{prefix}/cosine_mean")
            if not len(frames):
                continue
            cosine = np.stack(
                [aligned(seeds, f"{prefix}/cosine_{each}", at=frames)[1].mean(axis=0) for each in COSINES]
            )
            norms = {
                name.removeprefix(f"{prefix}/norms/"): aligned(seeds, name, at=frames)[1].mean(axis=0) for name in names
            }
            panels.append(ConflictPanel(setting, group, frames, norms, cosine))
    return panels


def _frames(seeds: Sequence[Sequence[LogRow]], metric: str) -> Array:
    """Return the frames of the first seed's measurements, so that a single seed is drawn without interpolation.

    Only those between the first and the last measurement of every seed, so that no seed is extended.
    """
    known = [[float(row["frames"] or 0) for row in rows if row.get(metric) is not None] for rows in seeds]
    first, last = max(min(each) for each in known), min(max(each) for each in known)
    return np.array([each for each in known[0] if first <= each <= last])


def draw_conflicts(pools: Sequence[Pool]) -> Any:
    """Draw the cosines between task gradients (mean and range over pairs) above their norms, for actors and critics."""
    panels = conflict_panels({one.name: [list(log.rows) for log in one.logs] for one in pools})
    if not panels:
        return "no setting logged gradients (grads.conflicts_every=N)"
    if (problem := too_many(panels)) is not None:
        return problem
    figure, places = panel_grid(panels, HEIGHTS)
    styles = task_styles(panels)
    for panel, (upper, lower) in zip(panels, places, strict=True):
        _draw_cosines(upper, panel)
        draw_values(lower, panel, styles)
        lower.set(yscale="log", ylabel="norm of a task's gradient")
        _short_numbers(lower.yaxis)
    legend_below(figure, *(lower for _, lower in places))
    return figure


def _draw_cosines(axes: Any, panel: ConflictPanel) -> None:
    """Draw the mean and the range of the cosines."""
    lowest, middle, highest = panel.cosine
    axes.axhline(0.0, color="#333333", lw=0.8)
    axes.plot(panel.frames, middle, color=COLORS[0])
    axes.fill_between(panel.frames, lowest, highest, color=COLORS[0], alpha=_TRANSPARENT, lw=0)
    axes.set(ylim=(-1.02, 1.02), ylabel="cosine of two tasks\nmean and range")


def _short_numbers(axis: Any) -> None:
    """Write 0.1, 0.3, 1 and so on at a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
