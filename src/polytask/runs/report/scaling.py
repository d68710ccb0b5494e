"""Figures of success over size: the parameters of the critic, and the frames of one iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polytask.runs.report.canvas import color, engineering, legend_below, line_style, new_figure, wrapped
from polytask.runs.report.labels import Setting, identity, name_settings
from polytask.runs.report.pool import Pool, Score, common_measure, measure_titles
from polytask.runs.report.published import Published

SIZES = ("hidden", "blocks", "expansion", "layers", "width", "experts", "sets", "modules")  # keys of a network
WORLDS = ("num_envs", "envs_per_task", "algo.minibatch", "algo.minibatches")
HOLLOW: dict[str, Any] = {"ls": "none", "marker": "o", "ms": 6, "mfc": "white", "zorder": 3}


@dataclass(frozen=True)
class Point:
    """One setting in a figure of sizes."""

    size: float
    score: Score
    hours: float | None
    published: Published | None = None


def draw_critic_size(pools: Sequence[Pool], published: Mapping[str, Published]) -> Any:
    """Draw success over the number of parameters of the critic, ours and the published one."""

    def without_size(setting: Setting) -> Setting:
        group = "critic_net" if setting.get("critic_net.name") else "net"
        return {key: value for key, value in setting.items() if key not in {f"{group}.{size}" for size in SIZES}}

    measure = _measure(pools, published)
    lines = _lines(pools, published, measure, _critic_parameters, without_size)
    if not lines:
        return "it needs runs that logged their number of parameters and differ in the size of the critic"
    return _draw(measure_titles(pools)[measure], lines, "parameters of the critic", has_hours=False)


def draw_batch_size(pools: Sequence[Pool], published: Mapping[str, Published]) -> Any:
    """Draw success, and the time that it took, over the frames of an iteration, ours and the published ones."""

    def without_worlds(setting: Setting) -> Setting:
        return {key: value for key, value in setting.items() if key not in WORLDS}

    measure = _measure(pools, published)
    lines = _lines(pools, published, measure, _batch, without_worlds)
    if not lines:
        return "it needs runs that differ in the number of worlds"
    return _draw(measure_titles(pools)[measure], lines, "frames of an iteration (worlds x steps)", has_hours=True)


def _critic_parameters(one: Pool) -> float | None:
    parameters = one.logs[0].summary.get("parameters") or {}
    return parameters.get("critic")


def _batch(one: Pool) -> float | None:
    """Return the frames between two rows of the log, which are those of an iteration."""
    for log in one.logs:
        rows = log.rows
        if len(rows) > 1 and rows[-1]["iteration"] != rows[0]["iteration"]:
            frames = (rows[-1]["frames"] or 0) - (rows[0]["frames"] or 0)
            return frames / ((rows[-1]["iteration"] or 0) - (rows[0]["iteration"] or 0))
    return None


def _measure(pools: Sequence[Pool], published: Mapping[str, Published]) -> str:
    """Return the measure to draw: that of the published results if all settings have it; "" if no setting has any."""
    theirs = {published[one.name].measure for one in pools if one.name in published}
    if len(theirs) == 1 and all(theirs <= one.scores.keys() for one in pools):
        return theirs.pop()
    return common_measure(pools) or ""


def _lines(
    pools: Sequence[Pool],
    published: Mapping[str, Published],
    measure: str,
    size_of: Callable[[Pool], float | None],
    rest_of: Callable[[Setting], Setting],
) -> dict[str, list[Point]]:
    """Return the settings that differ only in their size, by the name of what they share.

    A published success of another measure is left out.
    """
    groups: dict[str, list[Point]] = {}
    rests: dict[str, Setting] = {}
    for one in pools:
        size, score = size_of(one), one.scores.get(measure)
        if size is None or score is None:
            continue
        rest = rest_of(one.setting)
        rests[identity(rest)] = rest
        hours = None if one.minutes is None else one.minutes / 60.0
        theirs = published.get(one.name)
        point = Point(size, score, hours, theirs if theirs and theirs.measure == measure else None)
        groups.setdefault(identity(rest), []).append(point)
    kept = {key: points for key, points in groups.items() if len({point.size for point in points}) > 1}
    if not kept:
        return {}
    names = name_settings([rests[key] for key in kept])
    return {
        name: sorted(points, key=lambda point: point.size) for name, points in zip(names, kept.values(), strict=True)
    }


def _draw(title: str, lines: dict[str, list[Point]], label: str, *, has_hours: bool) -> Any:
    """Draw a panel of success, which the title names, and one of hours if it is wanted and all runs have a duration."""
    has_hours = has_hours and all(point.hours is not None for points in lines.values() for point in points)
    figure, axes = new_figure(3.0, columns=1 + has_hours, width=5.5 if has_hours else 4.2)
    for index, (name, points) in enumerate(lines.items()):
        _draw_success(axes[0, 0], name, points, index)
        if has_hours:
            _draw_hours(axes[0, 1], points, index)
    if any(point.published for points in lines.values() for point in points):
        axes[0, 0].plot([], [], **HOLLOW, mec="black", label="hollow: published")
    for one in axes[0]:
        one.set(xscale="log", xlabel=wrapped(label, 30))
        engineering(one.xaxis)
    axes[0, 0].set(ylabel=f"{title}, 95 % intervals", ylim=(-0.02, 1.02))
    if has_hours:
        axes[0, 1].set(ylabel="hours of training", yscale="log")
    legend_below(figure, axes[0, 0])
    return figure


def _style(index: int) -> dict[str, Any]:
    return {**line_style(index), "marker": "o", "ms": 4}


def _draw_success(axes: Any, name: str, points: Sequence[Point], index: int) -> None:
    """Draw our successes with their intervals, and the published ones."""
    sizes, scores = [point.size for point in points], [point.score for point in points]
    below = [score.value - score.interval[0] for score in scores]
    above = [score.interval[1] - score.value for score in scores]
    values = [score.value for score in scores]
    axes.errorbar(sizes, values, yerr=[below, above], label=wrapped(name), capsize=2, **_style(index))
    _draw_hollow(axes, [(point.size, point.published.success) for point in points if point.published], index)


def _draw_hours(axes: Any, points: Sequence[Point], index: int) -> None:
    """Draw the hours of our runs, and the published ones."""
    axes.plot([point.size for point in points], [point.hours for point in points], **_style(index))
    theirs = [(point.size, point.published.hours) for point in points if point.published]
    _draw_hollow(axes, [(size, hours) for size, hours in theirs if hours is not None], index)


def _draw_hollow(axes: Any, places: Sequence[tuple[float, float]], index: int) -> None:
    """Draw published values as hollow markers, in the colour of our line."""
    if places:
        sizes, values = zip(*places, strict=True)
        axes.plot(sizes, values, **HOLLOW, mec=color(index))
