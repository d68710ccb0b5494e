"""Demonstrations for a new run: the successful episodes of a data set, as steps to imitate (`demos=FOLDER`).

They may come from a scripted expert, another policy or a person. What a run reaches with them is no result of its
reward alone, so its settings, its summary and its reports name them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.result import note
from polytask.runs.episode_data import EpisodeDataset, load
from polytask.types import Algo, Imitates


@dataclass(frozen=True)
class Demonstrations:
    """M steps of successful episodes, each up to its last success.

    Attributes:
        task: Task of the run, of each step. (M,)
        obs: Raw observation before the action. (M, O)
        action: Action in [-1, 1]. (M, A)
        episodes: Number of episodes of each task of the run that has some.
    """

    task: Tensor
    obs: Tensor
    action: Tensor
    episodes: dict[str, int]


def demonstrate(algo: Algo, env: MultiTaskEnv, folder: str) -> dict[str, int]:
    """Hand the demonstrations in a folder to a new learner; return the number of episodes of each task.

    Raises:
        UserError: If the learner cannot imitate, or the episodes are not of this run's worlds or never succeed.
    """
    if not isinstance(algo, Imitates):
        raise UserError("demos: this algorithm does not imitate; use algo=ppo or algo=grpo, or leave demos out")
    found = read_demonstrations(folder, env)
    algo.imitate(*(each.to(env.device) for each in (found.task, found.obs, found.action)))
    return found.episodes


def announce(folder: str, episodes: dict[str, int], tasks: tuple[str, ...]) -> None:
    """Say which tasks have demonstrations."""
    shown = ", ".join(f"{task} {count}" for task, count in episodes.items())
    without = len(tasks) - len(episodes)
    note(f"demos {folder}: successful episodes: {shown}" + (f"; {without} tasks have none" if without else ""))


def read_demonstrations(folder: str, env: MultiTaskEnv) -> Demonstrations:
    """Read the steps of successful episodes of the tasks of an environment."""
    data, spec = load(folder), env.spec
    _check_worlds(folder, data, env)
    number = torch.tensor([spec.tasks.index(name) if name in spec.tasks else -1 for name in data.tasks])
    if (number[data.task] < 0).all():
        raise UserError(
            f"demos: '{folder}' has episodes of {', '.join(data.tasks)}, and this run has none of these tasks"
        )
    last = last_success(data)  # (E,)
    is_shown = (last >= 0) & (number[data.task] >= 0)  # (E,)
    if not is_shown.any():
        raise UserError(
            f"demos: no episode in '{folder}' succeeds in a task of this run, so there is nothing to imitate"
        )
    step = torch.arange(len(data.obs)) - data.start.repeat_interleave(data.length)  # within its episode
    rows = (step <= last.repeat_interleave(data.length)) & is_shown.repeat_interleave(data.length)
    count = torch.bincount(number[data.task[is_shown]], minlength=spec.num_tasks).tolist()
    episodes = {task: each for task, each in zip(spec.tasks, count, strict=True) if each}
    return Demonstrations(number[data.step_task[rows]], data.obs[rows], data.action[rows], episodes)


def last_success(data: EpisodeDataset) -> Tensor:
    """Return the last step of each episode that was a success, counted from its start; -1 if none was. (E,)"""
    episode = torch.arange(len(data)).repeat_interleave(data.length)
    step = torch.arange(len(data.obs)) - data.start.repeat_interleave(data.length)
    return torch.full((len(data),), -1).scatter_reduce(0, episode, torch.where(data.success, step, -1), "amax")


def _check_worlds(folder: str, data: EpisodeDataset, env: MultiTaskEnv) -> None:
    """Check that a policy of this run could have taken the steps of a data set."""
    shown, own = data.index["robot"], env.config.robot.name
    if shown != own:
        raise UserError(f"demos: '{folder}' shows the robot {shown}, and this run has {own}")
    for what in ("obs_dim", "action_dim"):
        if data.index[what] != getattr(env.spec, what):
            raise UserError(
                f"demos: '{Path(folder).name}' has {what} {data.index[what]}, and this run has "
                f"{getattr(env.spec, what)}; collect the episodes with the same options of the worlds"
            )
