"""Figures of success over size: the parameters of the critic, and the frames of one iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polytask.runs.report.canvas import engineering, legend_below, line_style, new_figure, wrapped
from polytask.runs.report.labels import Setting, identity, name_settings
from polytask.runs.report.pool import Pool, Score, common_measure, measure_titles

SIZES = ("hidden", "blocks", "expansion", "layers", "width", "experts", "sets", "modules")  # keys of a network
WORLDS = ("num_envs", "envs_per_task", "algo.minibatch", "algo.minibatches")


@dataclass(frozen=True)
class Point:
    """One setting in a figure of sizes."""

    size: float
    score: Score
    hours: float | None


def draw_critic_size(pools: Sequence[Pool]) -> Any:
    """Draw success over the number of parameters of the critic."""

    def without_size(setting: Setting) -> Setting:
        group = "critic_net" if setting.get("critic_net.name") else "net"
        return {key: value for key, value in setting.items() if key not in {f"{group}.{size}" for size in SIZES}}

    lines = _lines(pools, _critic_parameters, without_size)
    if not lines:
        return "it needs runs that logged their number of parameters and differ in the size of the critic"
    return _draw(pools, lines, "parameters of the critic", has_hours=False)


def draw_batch_size(pools: Sequence[Pool]) -> Any:
    """Draw success, and the time that it took, over the number of frames of an iteration."""
    lines = _lines(pools, _batch, lambda setting: {key: value for key, value in setting.items() if key not in WORLDS})
    if not lines:
        return "it needs runs that differ in the number of worlds"
    return _draw(pools, lines, "frames of an iteration (worlds x steps)", has_hours=True)


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


def _lines(
    pools: Sequence[Pool], size_of: Callable[[Pool], float | None], rest_of: Callable[[Setting], Setting]
) -> dict[str, list[Point]]:
    """Return the settings that differ only in their size, by the name of what they share."""
    measure = common_measure(pools)
    groups: dict[str, list[Point]] = {}
    rests: dict[str, Setting] = {}
    for one in pools:
        size, score = size_of(one), one.scores.get(measure or "")
        if size is None or score is None:
            continue
        rest = rest_of(one.setting)
        rests[identity(rest)] = rest
        hours = None if one.minutes is None else one.minutes / 60.0
        groups.setdefault(identity(rest), []).append(Point(size, score, hours))
    kept = {key: points for key, points in groups.items() if len({point.size for point in points}) > 1}
    if not kept:
        return {}
    names = name_settings([rests[key] for key in kept])
    return {
        name: sorted(points, key=lambda point: point.size) for name, points in zip(names, kept.values(), strict=True)
    }


def _draw(pools: Sequence[Pool], lines: dict[str, list[Point]], label: str, *, has_hours: bool) -> Any:
    has_hours = has_hours and all(point.hours is not None for points in lines.values() for point in points)
    panels = 1 + has_hours
    figure, axes = new_figure(3.0, columns=panels, width=5.5 if has_hours else 4.2)
    for index, (name, points) in enumerate(lines.items()):
        sizes, values = [point.size for point in points], [point.score.value for point in points]
        below = [point.score.value - point.score.interval[0] for point in points]
        above = [point.score.interval[1] - point.score.value for point in points]
        style = {**line_style(index), "marker": "o", "ms": 4}
        axes[0, 0].errorbar(sizes, values, yerr=[below, above], label=wrapped(name), capsize=2, **style)
        if has_hours:
            axes[0, 1].plot(sizes, [point.hours for point in points], **style)
    for one in axes[0]:
        one.set(xscale="log", xlabel=wrapped(label, 30))
        engineering(one.xaxis)
    measure = common_measure(pools)
    axes[0, 0].set(ylabel=f"{measure_titles(pools)[str(measure)]}, 95 % intervals", ylim=(-0.02, 1.02))
    if has_hours:
        axes[0, 1].set(ylabel="hours of training", yscale="log")
    legend_below(figure, axes[0, 0])
    return figure
