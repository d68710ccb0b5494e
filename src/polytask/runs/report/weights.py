"""The figure of the weights that gradient methods give to tasks, as learners log them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from polytask.files import LogRow
from polytask.runs.report.canvas import legend_below
from polytask.runs.report.curves import aligned
from polytask.runs.report.pool import Pool
from polytask.runs.report.task_panels import TaskPanel, draw_values, panel_grid, task_styles, too_many

NETWORKS = {"policy": "actor", "value": "critic"}  # other names in the log are those of networks
HEIGHT = 1.6  # inches of a panel


def weight_names(rows: Sequence[LogRow], tasks: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the metrics that hold a weight per task, such as per_task/reach/value_weight, by network and task."""
    found: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        parts = re.fullmatch(r"per_task/(.+)/([^/]+)_weight", name)
        if parts and parts[1] in tasks:
            found.setdefault(NETWORKS.get(parts[2], parts[2]), {})[parts[1]] = name
    return found


def weight_panels(pools: Sequence[Pool]) -> list[TaskPanel]:
    """Return a panel per setting and network whose method has weights of its own, averaged over the seeds."""
    panels = []
    for one in pools:
        seeds = [log.rows for log in one.logs]
        names = weight_names([row for rows in seeds for row in rows], one.logs[0].tasks)
        for network, metrics in names.items():
            frames, _ = aligned(seeds, next(iter(metrics.values())))
            if len(frames):
                values = {task: aligned(seeds, name, at=frames)[1] for task, name in metrics.items()}
                means = {task: each.mean(axis=0) for task, each in values.items() if len(each)}
                panels.append(TaskPanel(one.name, network, frames, means))
    return panels


def draw_weights(pools: Sequence[Pool]) -> Any:
    """Draw the weights of the tasks over frames, averaged over seeds, a panel per setting and network."""
    panels = weight_panels(pools)
    if not panels:
        return "no setting logged the weights of its tasks"
    if (problem := too_many(panels)) is not None:
        return problem
    figure, places = panel_grid(panels, [HEIGHT])
    styles = task_styles(panels)
    for panel, (axes,) in zip(panels, places, strict=True):
        draw_values(axes, panel, styles)
        axes.set_ylabel("weight of a task")
    legend_below(figure, *(axes for (axes,) in places))
    return figure
