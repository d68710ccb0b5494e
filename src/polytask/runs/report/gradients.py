"""Figures of the tasks' gradients: cosines between them, their norms, and the weights that methods give to tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytask.files import LogRow
from polytask.runs.report.canvas import COLORS, engineering, legend_below, line_style, new_figure, wrapped
from polytask.runs.report.curves import aligned
from polytask.runs.report.pool import Pool
from polytask.statistics import Array

COSINES = ("min", "mean", "max")  # logged statistics of the cosines between the gradients of two tasks
_WEIGHT = re.compile(r"(?:^|/)weights?(?:/|$)")
_TRANSPARENT = 0.2
PANELS = 3  # in a row


@dataclass(frozen=True)
class ConflictPanel:
    """Conflicts between the task gradients of one network, averaged over the seeds of one setting at the same frames.

    Attributes:
        title: The setting and the network.
        frames: (F,)
        cosine: Smallest, mean and largest cosine between the gradients of two tasks. (3, F)
        norms: Norm of each task's gradient, by task. (F,) each
    """

    title: str
    frames: Array
    cosine: Array
    norms: dict[str, Array]


def conflict_panels(curves: dict[str, list[list[LogRow]]]) -> list[ConflictPanel]:
    """Return a panel per setting and network (actor, then critic), except where a seed logged no conflicts."""
    panels = []
    for setting, seeds in curves.items():
        for group in ("actor", "critic"):
            prefix = f"conflict/{group}"
            logged = [next((row for row in rows if f"{prefix}/cosine_mean" in row), None) for rows in seeds]
            if None in logged:
                continue
            names = [name for name in logged[0] or () if name.startswith(f"{prefix}/norms/")]
            frames = _frames(seeds, f"{prefix}/cosine_mean")
            cosine = np.stack(
                [aligned(seeds, f"{prefix}/cosine_{each}", at=frames)[1].mean(axis=0) for each in COSINES]
            )
            norms = {
                name.removeprefix(f"{prefix}/norms/"): aligned(seeds, name, at=frames)[1].mean(axis=0) for name in names
            }
            panels.append(ConflictPanel(f"{setting}: {group}", frames, cosine, norms))
    return panels


def _frames(seeds: Sequence[Sequence[LogRow]], metric: str) -> Array:
    """Return the frames of the first seed's measurements, so that a single seed is drawn without interpolation."""
    last = min(float(rows[-1]["frames"] or 0) for rows in seeds)
    frames = [float(row["frames"] or 0) for row in seeds[0] if metric in row]
    return np.array([each for each in frames if each <= last])


def draw_conflicts(pools: Sequence[Pool]) -> Any:
    """Draw the cosines between task gradients (mean and range over pairs) above their norms, one column per panel."""
    panels = conflict_panels({one.name: [list(log.rows) for log in one.logs] for one in pools})
    if not panels:
        return "no setting logged gradients (grads.conflicts_every=N)"
    columns = min(PANELS, len(panels))
    blocks = -(-len(panels) // columns)
    width = max(4.2, 1.0 + 2.0 * columns)
    figure, axes = new_figure(4.6 * blocks, 2 * blocks, columns, width, sharey="row")
    pairs = [
        (axes[2 * block, column], axes[2 * block + 1, column]) for block in range(blocks) for column in range(columns)
    ]
    for panel, (upper, lower) in zip(panels, pairs, strict=False):
        lowest, middle, highest = panel.cosine
        upper.axhline(0.0, color="#333333", lw=0.8)
        upper.plot(panel.frames, middle, color=COLORS[0])
        upper.fill_between(panel.frames, lowest, highest, color=COLORS[0], alpha=_TRANSPARENT, lw=0)
        for index, (task, norm) in enumerate(panel.norms.items()):
            lower.plot(panel.frames, norm, label=task, **{**line_style(index), "lw": 1.0})
        upper.set(ylim=(-1.02, 1.02), title=wrapped(panel.title, 30))
        lower.set(xlabel="frames", yscale="log")
        for each in (upper, lower):
            engineering(each.xaxis)
    for each in pairs[len(panels) :]:
        each[0].set_visible(False)
        each[1].set_visible(False)
    for upper, lower in pairs[::columns]:
        upper.set_ylabel("cosine between two tasks\nmean and range")
        lower.set_ylabel("norm of a task's gradient")
    legend_below(figure, pairs[0][1])
    return figure


def weight_names(rows: Sequence[LogRow], tasks: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the metrics that hold a weight per task, by network (empty if not said) and task.

    A name has a part "weight" or "weights" and ends in the task, such as weight/critic/reach.
    """
    found: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        for task in tasks:
            prefix = name.removesuffix(f"/{task}")
            if prefix != name and _WEIGHT.search(prefix):
                rest = "/".join(part for part in prefix.split("/") if part not in ("weight", "weights", "grads"))
                found.setdefault(rest, {})[task] = name
    return found


def draw_weights(pools: Sequence[Pool]) -> Any:
    """Draw the weight of each task over frames, averaged over seeds, one panel per setting and network."""
    panels: dict[str, dict[str, tuple[Array, Array]]] = {}
    for one in pools:
        seeds = [log.rows for log in one.logs]
        for network, names in weight_names(seeds[0], one.logs[0].tasks).items():
            lines = {task: aligned(seeds, name) for task, name in names.items()}
            lines = {task: (at, values.mean(axis=0)) for task, (at, values) in lines.items() if len(at)}
            if lines:
                panels[f"{one.name}: {network}" if network else one.name] = lines
    if not panels:
        return "no setting logged the weights of its tasks"
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(0.8 + 2.0 * rows, rows, columns, width=max(4.2, 2.4 * columns))
    for place, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for index, (task, (at, values)) in enumerate(lines.items()):
            place.plot(at, values, label=task, **{**line_style(index), "lw": 1.0})
        place.set(title=wrapped(title, 32), xlabel="frames")
        engineering(place.xaxis)
    for place in axes.flat[len(panels) :]:
        place.set_visible(False)
    for place in axes[:, 0]:
        place.set_ylabel("weight of a task")
    legend_below(figure, axes.flat[0])
    return figure
