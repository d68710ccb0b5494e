"""Read what a run wrote: its settings, its rows of metrics and its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from polytask.config.saved import upgrade
from polytask.envs.options import WorldOptions
from polytask.errors import UserError
from polytask.files import Fields, LogRow, can_read, check_fields, exists, read_json, read_json_lines
from polytask.runs.changes import CHANGE_FIELDS
from polytask.runs.checkpoint import check_settings
from polytask.runs.file_names import CONFIG_FILE, INDEX_FILE, METRICS_FILE, OUTPUT, START_FILE, SUMMARY_FILE
from polytask.runs.report.folders import NOT_A_RUN

CONFIG_FIELDS: Fields = {
    "suite": str,
    "tasks": list | None,
    "seed": int | None,
    "goals": str | None,
    "reward": str | None,
    "num_envs": int | None,
    "episode_length": int | None,
    "success_window": int | None,
}
SUMMARY_FIELDS: Fields = {
    "evaluation": dict | None,
    "evaluation_new_goals": dict | None,
    "complete": bool | None,
    "commit": str | None,
    "version": str | None,
    "device": str | None,
    "runs_on_device": int | None,
    "demonstrations": dict | None,
    "parameters": dict | None,
}
START_FIELDS: Fields = {"demonstrations": dict | None, "changes": list | None}
WINDOW = 100  # episodes per task in the training success of a run that did not save the number


@dataclass(frozen=True)
class Rates:
    """The success rate of each task, None where no episode ended, and the number of episodes of each task."""

    by_task: dict[str, float | None]
    episodes: int


@dataclass(frozen=True)
class RunLog:
    """A run as its folder describes it."""

    directory: Path
    config: dict[str, Any]
    rows: list[LogRow]
    summary: dict[str, Any] = field(default_factory=dict)
    start: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks of the run."""
        return [name.removeprefix("success/") for name in self.rows[-1] if name.startswith("success/")]

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.config.get("seed") or 0)

    @property
    def reward(self) -> str:
        """The reward that the policy learned from."""
        return str(self.config.get("reward") or WorldOptions.reward)

    @property
    def has_fixed_goals(self) -> bool:
        """Whether every world kept one goal throughout the training."""
        return self.config.get("goals") == "fixed"

    @property
    def frames(self) -> int:
        """The number of frames of the run."""
        return int(self.rows[-1]["frames"] or 0)

    @property
    def minutes(self) -> float | None:
        """The duration of the training."""
        seconds = self.rows[-1].get("seconds")
        return None if seconds is None else seconds / 60.0

    @property
    def is_complete(self) -> bool:
        """Whether the run has ended as it was meant to. Early versions did not save this; their summaries count."""
        return bool(self.summary) and self.summary.get("complete") is not False

    @property
    def is_shown(self) -> bool:
        """Whether the policy was trained with demonstrations. Early versions said it only when a run ended."""
        return bool(self.start.get("demonstrations") or self.summary.get("demonstrations"))

    @property
    def changes(self) -> list[dict[str, Any]]:
        """What changed of the settings when the run was continued; only what it then trained with."""
        return [each for each in self.start.get("changes") or [] if each["frames"] < self.frames]

    @property
    def runs_on_device(self) -> int | None:
        """The number of runs that shared the device at most, this one included; None if it is not known."""
        return self.summary.get("runs_on_device")

    def rates(self, measure: str) -> Rates | None:
        """Return the success of the run by a measure of `pool.MEASURES`, or None if it was not measured."""
        if measure == "training":
            return Rates({task: self.rows[-1][f"success/{task}"] for task in self.tasks}, self._window())
        evaluation = self.summary.get(self._field(measure))
        if not evaluation:
            return None
        rates: dict[str, float | None] = {task: float(evaluation["tasks"][task]["success"]) for task in self.tasks}
        return Rates(rates, int(evaluation.get("episodes") or 1))

    def _field(self, measure: str) -> str:
        """Return the field of the summary that holds an evaluation.

        Earlier versions evaluated a run with fixed goals only once, and on new goals.
        """
        is_old = self.has_fixed_goals and "evaluation_new_goals" not in self.summary
        fields = {"noiseless": "" if is_old else "evaluation", "new_goals": "evaluation_new_goals"}
        return "evaluation" if is_old and measure == "new_goals" else fields[measure]

    def _window(self) -> int:
        """Return how many episodes the training success of a task counts: the window, or fewer in a short run."""
        window = self.config.get("success_window") or WINDOW
        steps = self.config.get("episode_length") or (self.rows[-1].get("length") or 1)
        ended = self.frames / max(1, len(self.tasks)) / max(1.0, float(steps))
        return max(1, min(int(window), int(ended)))


def read_run(directory: Path) -> RunLog:
    """Read the folder of a run.

    Raises:
        UserError: If it is not the folder of a run, or one of its files is damaged.
    """
    path = directory / METRICS_FILE
    rows = read_json_lines(path, is_numeric=True)
    if not rows or not exists(directory / CONFIG_FILE):
        raise UserError(f"'{directory}' is not a run directory: {NOT_A_RUN}")
    for row in rows:
        check_fields(row, {"frames": int}, path)
    log = RunLog(directory, _where_it_is(directory, _config(directory / CONFIG_FILE)), rows)
    if not log.tasks:
        raise UserError(f"'{path}' is damaged: its last row has no field 'success/TASK'")
    for task in log.tasks:
        _check_share(rows[-1][f"success/{task}"], f"success/{task}", path)
    start = directory / START_FILE
    began = read_json(start, "record of a run", START_FIELDS) if exists(start) else {}
    if began.get("changes"):
        check_fields(began, {"changes": [CHANGE_FIELDS]}, start)
    return RunLog(directory, log.config, rows, _summary(directory / SUMMARY_FILE, log.tasks), began)


def _config(path: Path) -> dict[str, Any]:
    """Return the settings of a run."""
    with can_read(path):
        text = path.read_bytes()
    try:
        saved: Any = yaml.safe_load(text.decode())
    # A file of another kind can raise anything: YAMLError, UnicodeDecodeError, AttributeError, RecursionError, ...
    except Exception as error:
        raise UserError(f"'{path}' cannot be read: it is not the config of a run") from error
    if not isinstance(saved, dict):
        raise UserError(f"'{path}' cannot be read: it is not the config of a run")
    check_settings(saved, path)
    config = upgrade(saved)
    check_fields(config, CONFIG_FIELDS, path)
    return config


def _where_it_is(directory: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run with the present place of the run that it started from.

    Both are often runs of one sweep, whose folder may have moved since. Its index names such a start from there.
    """
    root, name = directory.parent.parent, directory.parent.name
    path = root / INDEX_FILE
    if config.get("init_from") is None or not exists(path):
        return config
    settings = read_json(path, "record of a sweep", {"settings": dict | None}).get("settings") or {}
    if name not in settings:
        return config
    check_fields(settings, {name: {"config": {"init_from": str | None}}}, path, "settings.")
    start = settings[name]["config"].get("init_from") or ""
    if not start.startswith(OUTPUT):
        return config
    place = start.removeprefix(OUTPUT).replace("{seed}", str(config.get("seed") or 0))
    return {**config, "init_from": f"{root}/{place}"}


def _summary(path: Path, tasks: list[str]) -> dict[str, Any]:
    """Return the summary of a run; empty if it has none, because it has not ended."""
    if not exists(path):
        return {}
    summary = read_json(path, "summary of a run", SUMMARY_FIELDS)
    results: Mapping[str, Any] = {task: {"success": float} for task in tasks}
    for name in ("evaluation", "evaluation_new_goals"):
        if summary.get(name):
            check_fields(summary, {name: {"tasks": results, "episodes": int | None}}, path)
            for task in tasks:
                _check_share(summary[name]["tasks"][task]["success"], f"{name}.tasks.{task}.success", path)
            if (summary[name].get("episodes") or 1) < 1:
                raise UserError(f"'{path}' is damaged: field '{name}.episodes' must be at least 1")
    if summary.get("parameters"):
        check_fields(summary, {"parameters": dict.fromkeys(summary["parameters"], int)}, path)
    return summary


def _check_share(value: float | None, name: str, path: Path) -> None:
    """Check that a success rate is one."""
    if value is not None and not 0.0 <= value <= 1.0:
        raise UserError(f"'{path}' is damaged: field '{name}' must be between 0 and 1, not {value}")
