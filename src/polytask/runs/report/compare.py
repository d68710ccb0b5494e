"""Figures that compare the results of settings: final success, per task, and against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polytask.errors import UserError, suggest
from polytask.runs.report.canvas import color, new_figure, wrapped
from polytask.runs.report.pool import MEASURE_NAMES, MEASURES, Pool, common_measure, measure_titles
from polytask.runs.report.published import Published
from polytask.statistics import Interval, difference_interval, improvement, improvement_interval

INKS = ("white", "black")  # on dark and on light cells
FADED = 0.45  # opacity of bars that are not the main measure
MARKS = {"training": ("D", "diamond"), "noiseless": ("s", "square")}  # of published successes, by their measure


def draw_bars(pools: Sequence[Pool], published: Mapping[str, Published]) -> Any:
    """Draw the final success of every setting with its interval, one bar per measure, and published successes."""
    titles = measure_titles(pools)
    measures = [measure for measure in titles if any(measure in one.scores for one in pools)]
    if not measures:
        return "no run has a success rate for every task"
    figure, ((axes,),) = new_figure(0.9 + 0.34 * len(pools) * (0.4 + 0.6 * len(measures)))
    height = 0.8 / len(measures)
    for row, one in enumerate(pools):
        for number, measure in enumerate(measures):
            if (score := one.scores.get(measure)) is None:
                continue
            place, main = row + height * (number - 0.5 * (len(measures) - 1)), number == 0
            axes.barh(place, score.value, height * 0.92, color=color(row), alpha=1.0 if main else FADED)
            low, high = score.value - score.interval[0], score.interval[1] - score.value
            axes.errorbar(score.value, place, xerr=[[low], [high]], color="#333333", lw=1.0, capsize=2)
        if (theirs := published.get(one.name)) is not None:
            mark, _ = MARKS[theirs.measure]
            axes.plot(theirs.success, row, marker=mark, ms=5, color="black", mec="white", ls="none", zorder=3)
    which = [titles[measures[0]], *(f"faded: {titles[measure]}" for measure in measures[1:])]
    marked = {published[one.name].measure for one in pools if one.name in published}
    which += [f"{name}: published {MEASURE_NAMES[each]}" for each, (_, name) in MARKS.items() if each in marked]
    _finish(axes, [one.name for one in pools], wrapped(f"success, 95 % intervals ({'; '.join(which)})", 56))
    axes.set_xlim(0.0, 1.0)
    return figure


def find_baseline(pools: Sequence[Pool], name: str | None) -> Pool:
    """Return the setting that a name means.

    Raises:
        UserError: If there is no name, or no such setting.
    """
    names = [one.name for one in pools]
    if name is None:
        raise UserError(f"these figures need baseline=NAME; the settings are: {', '.join(names)}")
    if name not in names:
        raise UserError(f"there is no setting '{name}'; {suggest(name, names)}")
    return pools[names.index(name)]


def _comparable(pools: Sequence[Pool], baseline: Pool) -> tuple[str | None, list[Pool]]:
    """Return a measure that the baseline shares with other settings of the same tasks, and those settings."""
    for measure in MEASURES:
        others = [
            one
            for one in pools
            if one is not baseline and measure in one.scores and one.logs[0].tasks == baseline.logs[0].tasks
        ]
        if measure in baseline.scores and others:
            return measure, others
    return None, []


def left_out(pools: Sequence[Pool], baseline: Pool) -> list[str]:
    """Return a line that names the settings which the figures beside a baseline do not show, and why."""
    measure, shown = _comparable(pools, baseline)
    if measure is None:
        return []
    reasons: dict[str, list[str]] = {}
    for one in pools:
        if one is not baseline and one not in shown:
            is_measured = measure in one.scores
            reasons.setdefault("other tasks" if is_measured else f"no {MEASURE_NAMES[measure]}", []).append(one.name)
    return [f"not compared with {baseline.name}: {', '.join(names)} ({why})" for why, names in reasons.items()]


def draw_difference(pools: Sequence[Pool], baseline: Pool) -> Any:
    """Draw how much more often each setting succeeds than the baseline."""
    measure, others = _comparable(pools, baseline)
    if measure is None:
        return f"no setting has the tasks of '{baseline.name}' and a success that was measured in the same way"
    base = baseline.scores[measure]
    rows = {}
    for one in others:
        score = one.scores[measure]
        bounds = difference_interval(score.value, score.interval, base.value, base.interval)
        rows[one.name] = (score.value - base.value, bounds)
    figure, axes = _dots(rows, [color(pools.index(one)) for one in others])
    title = measure_titles(pools)[measure]
    axes.axvline(0.0, color="#333333", lw=0.8)
    axes.set_xlabel(wrapped(f"{title} minus that of {baseline.name}, 95 % intervals", 70))
    return figure


def draw_improvement(pools: Sequence[Pool], baseline: Pool) -> Any:
    """Draw how probably a run of each setting beats a run of the baseline on a task."""
    measure, others = _comparable(pools, baseline)
    others = [one for one in others if measure and min(len(one.rates[measure]), len(baseline.rates[measure])) > 1]
    if measure is None or not others:
        return "a probability of improvement needs two seeds of the baseline and of another setting"
    base = baseline.rates[measure]
    rows = {
        one.name: (
            float(improvement(one.rates[measure], base)),
            improvement_interval(one.rates[measure], base),
        )
        for one in others
    }
    figure, axes = _dots(rows, [color(pools.index(one)) for one in others])
    axes.axvline(0.5, color="#333333", lw=0.8)
    axes.set_xlim(0.0, 1.0)
    title = measure_titles(pools)[measure]
    axes.set_xlabel(wrapped(f"probability to beat {baseline.name} on a task by {title}, 95 % intervals", 70))
    return figure


def _dots(rows: dict[str, tuple[float, Interval]], colors: Sequence[str]) -> tuple[Any, Any]:
    """Draw one dot with its interval per row."""
    figure, ((axes,),) = new_figure(0.9 + 0.34 * len(rows))
    for row, (value, (low, high)) in enumerate(rows.values()):
        axes.errorbar(value, row, xerr=[[value - low], [high - value]], fmt="o", color=colors[row], capsize=2, ms=5)
    _finish(axes, list(rows), "")
    return figure, axes


def _finish(axes: Any, names: Sequence[str], label: str) -> None:
    """Write the names of the rows, the first at the top."""
    axes.set_yticks(range(len(names)), [wrapped(name) for name in names])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_xlabel(label)
    axes.grid(visible=False, axis="y")


def draw_tasks(pools: Sequence[Pool]) -> Any:
    """Draw the success of every setting on every task as a map of colours."""
    measure = common_measure(pools)
    if measure is None:
        return "no run has a success rate"
    shown = [one for one in pools if measure in one.tasks]
    tasks = list(dict.fromkeys(task for one in shown for task in one.logs[0].tasks))
    if len(shown) > 16:
        return "a map of the tasks has room for 16 settings; the page has a larger one"
    values = np.full((len(tasks), len(shown)), np.nan)
    for column, one in enumerate(shown):
        for task, score in one.tasks[measure].items():
            values[tasks.index(task), column] = score.value
    figure, ((axes,),) = new_figure(1.6 + 0.17 * len(tasks))
    picture = axes.imshow(values, cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", size=6, color=INKS[int(value > 0.5)])
    axes.set_xticks(range(len(shown)), [wrapped(one.name, 24) for one in shown], rotation=45, ha="right")
    axes.set_yticks(range(len(tasks)), tasks)
    axes.grid(visible=False)
    figure.colorbar(picture, ax=axes, label=measure_titles(pools)[measure], shrink=0.8)
    return figure
