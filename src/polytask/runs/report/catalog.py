"""All figures of a report, by name. A figure is drawn only where the runs have the numbers for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from polytask.runs.report.canvas import styled
from polytask.runs.report.compare import draw_bars, draw_difference, draw_improvement, draw_tasks, find_baseline
from polytask.runs.report.curves import draw_curves
from polytask.runs.report.gradients import draw_conflicts
from polytask.runs.report.pool import Pool
from polytask.runs.report.published import Published
from polytask.runs.report.scaling import draw_batch_size, draw_critic_size
from polytask.runs.report.weights import draw_weights


@dataclass(frozen=True)
class Plan:
    """What figures are drawn from."""

    pools: Sequence[Pool]
    baseline: str | None = None
    band: str = "range"
    published: Mapping[str, Published] = field(default_factory=dict)  # by the name of a setting

    def curves(self, metric: str, over: str, title: str) -> Any:
        """Draw curves of all settings."""
        return draw_curves(self.pools, metric, over, title, self.band)

    @property
    def base(self) -> Pool:
        """The setting to compare with."""
        return find_baseline(self.pools, self.baseline)


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure: its caption, and how it is drawn. Instead of a figure, a reason may be returned."""

    caption: str
    draw: Callable[[Plan], Any]


NEEDS_BASELINE = ("difference", "improvement")
FIGURES: dict[str, FigureKind] = {
    "curves": FigureKind(
        "Training success over frames: mean over seeds of the last episodes of all tasks, with exploration noise.",
        lambda plan: plan.curves("success", "frames", "training success"),
    ),
    "minutes": FigureKind(
        "Training success over minutes of training, without evaluations.",
        lambda plan: plan.curves("success", "minutes", "training success"),
    ),
    "evaluations": FigureKind(
        "Noiseless success during training, over frames.",
        lambda plan: plan.curves("eval/success", "frames", "noiseless success"),
    ),
    "reward": FigureKind(
        "Cumulative reward of the last training episodes, over frames, mean over tasks.",
        lambda plan: plan.curves("return", "frames", "cumulative reward of an episode"),
    ),
    "bars": FigureKind("Success at the end.", lambda plan: draw_bars(plan.pools, plan.published)),
    "tasks": FigureKind("Success at the end, task by task.", lambda plan: draw_tasks(plan.pools)),
    "difference": FigureKind("Difference to the baseline.", lambda plan: draw_difference(plan.pools, plan.base)),
    "improvement": FigureKind(
        "Probability that a run is better than one of the baseline on a task.",
        lambda plan: draw_improvement(plan.pools, plan.base),
    ),
    "critic_size": FigureKind(
        "Success over the size of the critic.", lambda plan: draw_critic_size(plan.pools, plan.published)
    ),
    "batch_size": FigureKind(
        "Success and duration over the number of frames of an iteration.",
        lambda plan: draw_batch_size(plan.pools, plan.published),
    ),
    "cosines": FigureKind(
        "Cosines between the gradients of two tasks (mean and range), and the norm of each task's gradient, or of many "
        "tasks the median, middle half and range, and the names of those with the highest and the lowest mean.",
        lambda plan: draw_conflicts(plan.pools),
    ),
    "weights": FigureKind(
        "Weights that the gradient method gives to the tasks, mean over seeds; of many tasks the median, middle "
        "half and range, and the names of those with the highest and the lowest mean.",
        lambda plan: draw_weights(plan.pools),
    ),
}


def draw_figures(plan: Plan, names: Sequence[str] | None) -> tuple[dict[str, Any], list[str]]:
    """Draw figures.

    Args:
        plan: What they are drawn from.
        names: Which ones; None for all that the runs have the numbers for.

    Returns:
        The figures by name, and one line per named figure that cannot be drawn.
    """
    figures, lines = {}, []
    for name, kind in FIGURES.items():
        if names is not None and name not in names:
            continue
        if names is None and plan.baseline is None and name in NEEDS_BASELINE:
            continue
        with styled():
            found = kind.draw(plan)
        if not isinstance(found, str):
            figures[name] = found
        elif names is not None:
            lines.append(f"no figure {name}: {found}")
    return figures, lines
