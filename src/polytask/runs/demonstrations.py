"""Demonstrations for a new run: the successful episodes of a data set, as steps to imitate (`demos=FOLDER`).

They may come from a scripted expert, another policy or a person. What a run reaches with them is no result of its
reward alone, so its settings, its summary and its reports name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.multi_task import MultiTaskEnv
from polytask.envs.options import ScanOptions
from polytask.errors import UserError
from polytask.result import note
from polytask.runs.episode_data import EpisodeDataset, load
from polytask.types import Algo, EnvSpec, Imitates


@dataclass(frozen=True)
class Demonstrations:
    """M steps of successful episodes, each up to its last success within the length of this run's episodes.

    Attributes:
        task: Task of the run, of each step. (M,)
        obs: Raw observation before the action. (M, O)
        action: Action in [-1, 1]. (M, A)
        episodes: Number of episodes of each task of the run that has some.
        late: Number of episodes that succeed only after so many steps, and are left out.
    """

    task: Tensor
    obs: Tensor
    action: Tensor
    episodes: dict[str, int]
    late: int


def demonstrate(algo: Algo, env: MultiTaskEnv, folder: str, *, is_told: bool) -> dict[str, int]:
    """Hand the demonstrations in a folder to a new learner; return, and tell if asked, the number of each task.

    Raises:
        UserError: If the learner cannot imitate, or the episodes are not of this run's worlds or never succeed.
    """
    if not isinstance(algo, Imitates):
        raise UserError("demos: this algorithm does not imitate; use algo=ppo or algo=grpo, or leave demos out")
    found = read_demonstrations(folder, env)
    algo.imitate(*(each.to(env.device) for each in (found.task, found.obs, found.action)))
    if is_told:
        _tell(folder, found, env.spec)
    return found.episodes


def _tell(folder: str, found: Demonstrations, spec: EnvSpec) -> None:
    """Say which tasks have demonstrations, and how many are left out."""
    line = ", ".join(f"{task} {count}" for task, count in found.episodes.items())
    if without := spec.num_tasks - len(found.episodes):
        line += f"; {without} tasks have none"
    if found.late:
        line += f"; {found.late} left out, which first succeed after this run's {spec.episode_length} steps"
    note(f"demos {folder}: successful episodes: {line}")


def read_demonstrations(folder: str, env: MultiTaskEnv) -> Demonstrations:
    """Read the steps of successful episodes of the tasks of an environment."""
    data, spec = load(folder), env.spec
    _check_worlds(folder, data, env)
    number = torch.tensor([spec.tasks.index(name) if name in spec.tasks else -1 for name in data.tasks])
    if (number[data.task] < 0).all():
        raise UserError(
            f"demos: '{folder}' has episodes of {', '.join(data.tasks)}, and this run has none of these tasks"
        )
    is_own = number[data.task] >= 0  # (E,)
    last = last_success(data, spec.episode_length)  # (E,)
    is_shown = (last >= 0) & is_own
    if not is_shown.any():
        raise UserError(
            f"demos: no episode in '{folder}' succeeds in a task of this run within its {spec.episode_length} steps, "
            "so there is nothing to imitate"
        )
    step = torch.arange(len(data.obs)) - data.start.repeat_interleave(data.length)  # within its episode
    rows = (step <= last.repeat_interleave(data.length)) & is_shown.repeat_interleave(data.length)
    _check_steps(folder, data, rows)
    count = torch.bincount(number[data.task[is_shown]], minlength=spec.num_tasks).tolist()
    episodes = {task: each for task, each in zip(spec.tasks, count, strict=True) if each}
    late = int((is_own & (last < 0) & (last_success(data, len(data.obs)) >= 0)).sum())
    return Demonstrations(number[data.step_task[rows]], data.obs[rows], data.action[rows], episodes, late)


def last_success(data: EpisodeDataset, limit: int) -> Tensor:
    """Return which of the first `limit` steps of each episode was the last success; -1 if none was. (E,)"""
    episode = torch.arange(len(data)).repeat_interleave(data.length)
    step = torch.arange(len(data.obs)) - data.start.repeat_interleave(data.length)
    counted = torch.where(data.success & (step < limit), step, -1)
    return torch.full((len(data),), -1).scatter_reduce(0, episode, counted, "amax")


def _check_steps(folder: str, data: EpisodeDataset, rows: Tensor) -> None:
    """Check the numbers of the steps (S,) bool that are to be imitated."""
    for what, values, limit in (("observation", data.obs, torch.inf), ("action", data.action, 1.0)):
        is_wrong = ~(values.isfinite() & (values.abs() <= limit)) & rows.unsqueeze(-1)
        if not is_wrong.any():
            continue
        row = int(is_wrong.any(dim=-1).nonzero()[0])
        episode = int((data.start <= row).sum()) - 1
        valid = "finite" if limit == torch.inf else "in [-1, 1]"
        raise UserError(
            f"demos: episode {episode} in '{folder}', of {data.tasks[int(data.task[episode])]}, has "
            f"{values[row][is_wrong[row]][0]:.6g} in the {what} of step {row - int(data.start[episode])}; "
            f"every {what} must be {valid}"
        )


def _check_worlds(folder: str, data: EpisodeDataset, env: MultiTaskEnv) -> None:
    """Check that a policy of this run could have taken the steps of a data set. A robot fixes what actions mean."""
    shown, own = data.index["robot"], env.config.robot.name
    if shown != own:
        raise UserError(f"demos: '{folder}' shows the robot {shown}, and this run has {own}")
    for what in ("obs_dim", "action_dim"):
        if data.index[what] != getattr(env.spec, what):
            raise UserError(
                f"demos: '{folder}' has {what} {data.index[what]}, and this run has "
                f"{getattr(env.spec, what)}; collect the episodes with the same options of the worlds"
            )
    # The two options that change what an observation shows, but not its size.
    recorded, scan = data.index["config"].get("scan"), env.config.options.scan
    for name in ("every", "spacing"):
        default = getattr(ScanOptions, name)
        value = recorded.get(name, default) if isinstance(recorded, Mapping) else default
        if value != getattr(scan, name):
            raise UserError(
                f"demos: '{folder}' shows worlds with scan.{name}={value}, and this run has scan.{name}="
                f"{getattr(scan, name)}; collect the episodes with the same options of the worlds"
            )
