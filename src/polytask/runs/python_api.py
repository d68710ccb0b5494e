"""Train from Python: `run = polytask.train("mt10", algo="ppo")`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from polytask.config.keywords import configure
from polytask.config.schema import EvalConfig, TrainConfig
from polytask.envs.manipulation.task import Task
from polytask.envs.parkour.terrain import Terrain
from polytask.errors import UserError
from polytask.files import LogRow, exists, read_json, read_json_lines
from polytask.plugins.loading import load_plugins
from polytask.plugins.worlds import register_task
from polytask.policies.policy import Policy
from polytask.runs.checkpoint import load, require_no_name
from polytask.runs.evaluate import evaluate
from polytask.runs.file_names import METRICS_FILE, SUMMARY_FILE
from polytask.runs.policy import load_policy
from polytask.runs.train import train as run_training

Group = Any  # a name, a config object, or a mapping of settings in which `name` chooses


class TrainSettings(TypedDict, total=False):
    """The settings of `polytask train`, which `polytask train --help` explains."""

    plugins: Sequence[str] | None
    preset: str | None
    tasks: Sequence[str | Task | Terrain] | None
    robot: str | None
    sim: Group
    device: str
    episode_length: int | None
    reward: str
    goals: str | None
    levels: str | None
    level: int | None
    tiles: str | None
    body: str | None
    privileged: str | None
    curriculum: Group
    scan: Group
    tuning: Group
    reality: Group
    reward_scale: float | None
    termination_on_success: bool | None
    seed: int
    threads: int | None
    num_envs: int | None
    envs_per_task: list[int] | None
    stagger: bool | None
    exempted_tasks: list[str] | None
    algo: Group
    net: Group
    critic_net: Group
    grads: Group
    max_frames: int | None
    max_iterations: int | None
    max_minutes: float | None
    run_dir: str | Path | None
    checkpoint: str | Path | None
    init_from: str | Path | None
    init_rows: int
    demos: str | Path | None
    save_every: int
    save_minutes: float
    eval_every: int
    eval_episodes: int
    success_window: int
    video: bool
    video_every: int
    history: Group
    tensorboard: bool
    wandb: bool
    wandb_project: str
    wandb_entity: str | None
    wandb_group: str | None
    wandb_name: str | None


class TrainedRun:
    """A run on disk.

    Attributes:
        directory: Its folder.
    """

    def __init__(self, directory: str | Path) -> None:
        """Open the folder of a run, of this process or of an earlier one.

        Raises:
            UserError: If it contains no run.
        """
        self.directory = Path(directory).expanduser()
        if not exists(self.directory / METRICS_FILE):
            raise UserError(f"'{self.directory}' is not a run directory: it has no {METRICS_FILE}")

    def __repr__(self) -> str:
        """Show the folder."""
        return f"{type(self).__name__}({str(self.directory)!r})"

    @property
    def summary(self) -> dict[str, Any]:
        """Results at the end of training, as in `summary.json`; `complete` tells whether a limit was reached."""
        return read_json(self.directory / SUMMARY_FILE, "summary of a run", {"complete": bool})

    def metrics(self) -> list[LogRow]:
        """Return the numbers of every iteration, such as `frames`, `success` and `loss/policy`."""
        return read_json_lines(self.directory / METRICS_FILE, is_numeric=True)

    def policy(self, device: torch.device | str = "cpu") -> Policy:
        """Return the trained policy, a function `policy(obs, task)` without noise."""
        return load_policy(self.directory, device)

    def evaluate(self, episodes: int = 50, **settings: Any) -> dict[str, Any]:
        """Measure the policy, without noise unless `explore=True`.

        Args:
            episodes: Episodes per task.
            settings: Other settings of `polytask eval`, such as `seed`, `device` or `episode_length`. Those that are
                not named are those of the run.

        Returns:
            What `polytask eval format=json` prints: `mean_success`, `tasks` and more.
        """
        given = {**settings, "episodes": episodes, "checkpoint": self.directory}
        config = configure(EvalConfig, given, saved=load(self.directory)["config"])
        return evaluate(config).payload


def train(suite: str | None = None, **settings: Unpack[TrainSettings]) -> TrainedRun:
    """Train a policy, as `polytask train` does, and return the run when it has ended.

    Args:
        suite: Name of a suite (default: that of the preset or of the checkpoint, else mt10).
        settings: Any setting of `polytask train`. `algo`, `net`, `critic_net`, `grads` and `sim` are names, config
            objects, or mappings such as `{"name": "sac", "lr": 1e-3}`. `history`, `curriculum`, `scan`, `tuning` and
            `reality` are config objects, or mappings such as `{"worlds": 8}`.

    Raises:
        UserError: If a setting is unknown or out of its range.
    """
    given: dict[str, Any] = {**settings}
    load_plugins(given.get("plugins") or [])
    if given.get("tasks") is not None:
        given["tasks"] = [task if isinstance(task, str) else register_task(task).name for task in given["tasks"]]
    if suite is not None:
        given["suite"] = suite
    checkpoint = given.get("checkpoint")
    if checkpoint is not None:
        require_no_name(checkpoint, "init_from={}")
    saved = None if checkpoint is None else load(checkpoint)["config"]
    result = run_training(configure(TrainConfig, given, saved=saved))
    return TrainedRun(result.payload["run_dir"])
