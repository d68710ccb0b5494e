"""What figures of tasks share: panels of settings by networks, with a line per task or a summary of many tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from polytask.runs.report.canvas import COLORS, STYLES, engineering, line_style, new_figure, wrapped
from polytask.statistics import Array

MOST_LINES = 12  # tasks of a panel that have lines of their own
MOST_SETTINGS = 16
NAMED = 3  # tasks at each end of a summary that are named
COLUMN, ALONE = 2.75, 4.2  # inches: the width of one of several columns, and of a single one
HEAD, NAMES = 0.85, 0.6  # inches above and below each panel: title and axis; names of tasks


@dataclass(frozen=True)
class TaskPanel:
    """Something that was measured for every task, in one network, averaged over the seeds of one setting.

    Attributes:
        setting: The name of the setting.
        network: Such as actor or critic.
        frames: (F,)
        tasks: Values by task. (F,) each
    """

    setting: str
    network: str
    frames: Array
    tasks: dict[str, Array]


def too_many(panels: Sequence[TaskPanel]) -> str | None:
    """Return why panels do not fit into a figure, or None if they do."""
    if len({panel.setting for panel in panels}) <= MOST_SETTINGS:
        return None
    return f"a figure of tasks and networks has room for {MOST_SETTINGS} settings; report fewer at once"


def panel_grid(panels: Sequence[TaskPanel], heights: Sequence[float]) -> tuple[Any, list[Any]]:
    """Return a figure, and the axes of each panel, of given heights in inches, one below the other.

    A row belongs to a setting, and its networks stand side by side. Where all panels are of the same network, they fill
    two columns.
    """
    places = _places(panels)
    rows, columns = (1 + max(place[axis] for place in places) for axis in (0, 1))
    row_height = sum(heights) + HEAD + NAMES * any(map(is_summary, panels))
    width = ALONE if columns == 1 else COLUMN * columns
    ratios = [*heights] * rows
    figure, axes = new_figure(row_height * rows, rows * len(heights), columns, width, height_ratios=ratios)
    own = [axes[row * len(heights) : (row + 1) * len(heights), column] for row, column in places]
    used = {id(each) for some in own for each in some}
    for each in axes.flat:
        each.set_visible(id(each) in used)
    for panel, some in zip(panels, own, strict=True):
        some[0].set_title(wrapped(f"{panel.setting}: {panel.network}", 36))
        for each in some:
            engineering(each.xaxis)
    return figure, own


def _places(panels: Sequence[TaskPanel]) -> list[tuple[int, int]]:
    """Return the row and the column of each panel."""
    settings = list(dict.fromkeys(panel.setting for panel in panels))
    networks = sorted({panel.network for panel in panels})
    if len(networks) == 1:
        return [divmod(number, 2) for number in range(len(panels))]
    return [(settings.index(panel.setting), networks.index(panel.network)) for panel in panels]


def is_summary(panel: TaskPanel) -> bool:
    """Return whether a panel has too many tasks for lines of their own."""
    return len(panel.tasks) > MOST_LINES


def task_styles(panels: Sequence[TaskPanel]) -> dict[str, dict[str, Any]]:
    """Return the style of each task that has lines, the same in all panels; empty if there are too many of them."""
    names = dict.fromkeys(task for panel in panels if not is_summary(panel) for task in panel.tasks)
    return {task: line_style(index) for index, task in enumerate(names)} if len(names) <= STYLES else {}


def draw_values(axes: Any, panel: TaskPanel, styles: dict[str, dict[str, Any]]) -> None:
    """Draw the values of a panel: a line per task, or a summary of many tasks that names the highest and the lowest."""
    axes.set_xlabel("frames")
    if is_summary(panel) or not styles:
        _draw_summary(axes, panel)
        return
    for task, values in panel.tasks.items():
        axes.plot(panel.frames, values, label=task, **{**styles[task], "lw": 1.0})


def _draw_summary(axes: Any, panel: TaskPanel) -> None:
    """Draw the median over tasks with the middle half and the range, and name the tasks at both ends."""
    lowest, lower, middle, upper, highest = np.quantile(
        np.stack(list(panel.tasks.values())), (0.0, 0.25, 0.5, 0.75, 1.0), axis=0
    )
    own = {"color": COLORS[0], "lw": 0.0}
    axes.fill_between(panel.frames, lowest, highest, alpha=0.15, label="lowest to highest task", **own)
    axes.fill_between(panel.frames, lower, upper, alpha=0.35, label="middle half of the tasks", **own)
    axes.plot(panel.frames, middle, color=COLORS[0], label="median of the tasks")
    means = {task: float(values.mean()) for task, values in panel.tasks.items()}
    order = sorted(means, key=means.__getitem__)
    ends = {"highest": order[: -NAMED - 1 : -1], "lowest": order[:NAMED]}
    lines = [f"{end}: " + ", ".join(f"{task} {means[task]:.2g}" for task in some) for end, some in ends.items()]
    axes.set_xlabel("\n".join(["frames", *(fill(line, 46, break_on_hyphens=False) for line in lines)]), fontsize=7.0)
