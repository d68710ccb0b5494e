"""Pool the runs of each setting: means with intervals, per measure of success and per task.

Success is measured in up to three ways, which are never mixed: without exploration noise after the training, the same
on new goals (if the goals of training are fixed), and in the last episodes of training. Means over tasks are without
parkour's flat ground, as in an evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polytask.envs.suites import counted
from polytask.errors import UserError
from polytask.runs.report.labels import Setting, identity, name_settings, setting_of
from polytask.runs.report.read import RunLog
from polytask.statistics import RATE, Array, Interval, iqm, mean, rate_interval, run_interval

MEASURES = ("noiseless", "new_goals", "training")
ROUNDING = 1e-9  # width of an interval that is one number


@dataclass(frozen=True)
class Score:
    """A mean over runs, with its 95 % interval."""

    value: float
    interval: Interval
    iqm: float
    runs: int  # that were measured
    is_over_runs: bool  # else the interval is one over episodes: there is one run, or all runs agree


@dataclass(frozen=True)
class Pool:
    """The runs of one setting.

    Attributes:
        name: A short name of the setting.
        setting: The setting itself.
        logs: The runs, by seed.
        rates: Measure -> the success rates of the runs that have a rate for every task that counts. (R, K)
        scores: Measure -> their mean over runs and tasks.
        tasks: Measure -> task -> mean over the runs that have a rate for this task.
        missing: Measure -> the runs without a rate for some task.
    """

    name: str
    setting: Setting
    logs: tuple[RunLog, ...]
    rates: dict[str, Array]
    scores: dict[str, Score]
    tasks: dict[str, dict[str, Score]]
    missing: dict[str, list[RunLog]]

    @property
    def frames(self) -> tuple[int, int]:
        """The smallest and the largest number of frames of a run."""
        frames = [log.frames for log in self.logs]
        return min(frames), max(frames)

    @property
    def minutes(self) -> float | None:
        """The mean duration of the runs."""
        known = [log.minutes for log in self.logs if log.minutes is not None]
        return sum(known) / len(known) if known else None

    def episode_return(self) -> tuple[float, Interval | None] | None:
        """Return the mean return of the last episodes of training over tasks, and its interval if there are seeds."""
        rows = [[log.rows[-1].get(f"return/{log.tasks[index]}") for index in counted(log.tasks)] for log in self.logs]
        known = np.array([row for row in rows if None not in row], dtype=np.float64)
        if not len(known):
            return None
        return float(mean(known)), run_interval(known) if len(known) > 1 else None


def pool_runs(logs: Sequence[RunLog], known: Mapping[Path, str] | None = None) -> list[Pool]:
    """Group runs by their settings, in the order of the first run of each.

    Args:
        logs: The runs.
        known: Folder of a run -> name of its setting. Without it, settings are named by what differs between them.

    Raises:
        UserError: If a setting has two runs of one seed, which would be counted as two seeds.
    """
    groups: dict[str, list[RunLog]] = {}
    settings: dict[str, Setting] = {}
    for log in logs:
        setting = setting_of(log.config, is_shown=log.is_shown)
        groups.setdefault(identity(setting), []).append(log)
        settings.setdefault(identity(setting), setting)
    names = name_settings(list(settings.values()))
    if known:
        names = [known.get(runs[0].directory, name) for runs, name in zip(groups.values(), names, strict=True)]
    return [pool(name, settings[key], groups[key]) for key, name in zip(groups, names, strict=True)]


def pool(name: str, setting: Setting, logs: Sequence[RunLog]) -> Pool:
    """Pool the runs of one setting."""
    by_seed: dict[int, RunLog] = {}
    for log in logs:
        if log.tasks != logs[0].tasks:
            raise UserError(
                f"'{log.directory}' and '{logs[0].directory}' have the same setting, but logged different tasks"
            )
        if (same := by_seed.setdefault(log.seed, log)) is not log:
            raise UserError(
                f"'{same.directory}' and '{log.directory}' are the same setting with the same seed, {log.seed}; "
                "report only one of them"
            )
    one = Pool(name, setting, tuple(by_seed[seed] for seed in sorted(by_seed)), {}, {}, {}, {})
    for measure in MEASURES:
        _measure(one, measure)
    return one


def _measure(one: Pool, measure: str) -> None:
    """Fill in one measure of success, if a run has it."""
    found = {log.seed: rates for log in one.logs if (rates := log.rates(measure)) is not None}
    if not found:
        return
    names, episodes = one.logs[0].tasks, min(rates.episodes for rates in found.values())
    matrix = np.array([[rates.by_task[task] for task in names] for rates in found.values()], dtype=np.float64)
    means = matrix[:, counted(names)]
    whole = {seed for seed, row in zip(found, means, strict=True) if not np.isnan(row).any()}
    one.missing[measure] = [log for log in one.logs if log.seed not in whole]
    columns = {task: column[~np.isnan(column), None] for task, column in zip(names, matrix.T, strict=True)}
    one.tasks[measure] = {task: _score(column, episodes) for task, column in columns.items() if len(column)}
    if whole:
        one.rates[measure] = means[[seed in whole for seed in found]]
        one.scores[measure] = _score(one.rates[measure], episodes)


def _score(rates: Array, episodes: int) -> Score:
    """Summarize success rates (R, K), each of `episodes` episodes."""
    runs = len(rates)
    interval = run_interval(rates, bounds=RATE) if runs > 1 else (0.0, 0.0)
    is_over_runs = interval[1] - interval[0] > ROUNDING
    if not is_over_runs:  # runs that agree do not tell how much runs differ, but their episodes leave a doubt
        interval = rate_interval(rates.mean(axis=0), runs * episodes)
    return Score(float(mean(rates)), interval, float(iqm(rates)), runs, is_over_runs)


MEASURE_NAMES = {
    "noiseless": "noiseless success",
    "new_goals": "noiseless success on new goals",
    "training": "training success",
}


def measure_titles(pools: Sequence[Pool]) -> dict[str, str]:
    """Return a title for each measure that some setting has, which says which goals were evaluated."""
    fixed = [one.logs[0].has_fixed_goals for one in pools]
    goals = "" if not any(fixed) else ", goals of training" if all(fixed) else ", goals as in training"
    titles = {**MEASURE_NAMES, "noiseless": MEASURE_NAMES["noiseless"] + goals}
    return {measure: title for measure, title in titles.items() if any(measure in one.tasks for one in pools)}


def common_measure(pools: Sequence[Pool]) -> str | None:
    """Return the first measure that all settings have, else the first that one has."""
    everywhere = [each for each in MEASURES if all(each in one.scores for one in pools)]
    somewhere = [each for each in MEASURES if any(each in one.scores for one in pools)]
    return next(iter([*everywhere, *somewhere]), None)


def payload(one: Pool) -> dict[str, Any]:
    """Return a setting's numbers for `format=json`."""
    reward = one.episode_return()
    return {
        "seeds": [log.seed for log in one.logs],
        "runs": [str(log.directory) for log in one.logs],
        "frames": list(one.frames),
        "minutes": one.minutes,
        **{measure: _plain(score) for measure, score in one.scores.items()},
        "return": None if reward is None else {"mean": reward[0], "interval": reward[1] and list(reward[1])},
        "tasks": {
            task: {measure: _plain(scores[task]) for measure, scores in one.tasks.items() if task in scores}
            for task in one.logs[0].tasks
        },
    }


def _plain(score: Score) -> dict[str, Any]:
    return {
        "mean": score.value,
        "interval": list(score.interval),
        "interval_over": "runs" if score.is_over_runs else "episodes",
        "iqm": score.iqm,
        "runs": score.runs,
    }
