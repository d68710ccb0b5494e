"""Read what `polytask collect` wrote."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polytask.envs.tasks import TASKS
from polytask.errors import UserError

FORMAT = 1  # raised when the layout of the files changes
INDEX = "index.json"
_STEPS = ("obs", "action", "reward", "success", "terminated", "truncated")
_EPISODES = ("task", "world", "seed", "length", "last_obs")


@dataclass(frozen=True)
class DatasetEpisode:
    """One episode of L steps."""

    task: str
    seed: int
    obs: Tensor  # (L + 1, O) the last row is what the last action led to
    action: Tensor  # (L, A)
    reward: Tensor  # (L,)
    success: Tensor  # (L,) bool
    terminated: Tensor  # (L,) bool
    truncated: Tensor  # (L,) bool


@dataclass(frozen=True)
class EpisodeDataset:
    """S steps of E episodes, one episode after the other.

    Attributes:
        tasks: Names that `task` numbers.
        index: Content of `index.json`: versions of the tasks, config of the run, shards.
        obs: What the policy acted on. (S, O)
        action: In [-1, 1]. (S, A)
        reward: (S,)
        success: The task's success test held after the step. (S,) bool
        terminated: A true end, whose value is zero. (S,) bool
        truncated: Cut off by the time limit or a diverged simulation. (S,) bool
        task: Task of each episode. (E,) int64
        world: Which of its task's worlds an episode was played in. (E,) int64
        seed: Seed that the worlds were started from. (E,) int64
        length: Steps of each episode. (E,) int64
        last_obs: What the last action of each episode led to. (E, O)
    """

    tasks: tuple[str, ...]
    index: dict[str, Any]
    obs: Tensor
    action: Tensor
    reward: Tensor
    success: Tensor
    terminated: Tensor
    truncated: Tensor
    task: Tensor
    world: Tensor
    seed: Tensor
    length: Tensor
    last_obs: Tensor

    def __len__(self) -> int:
        """Count the episodes."""
        return len(self.length)

    @property
    def start(self) -> Tensor:
        """Row of each episode's first step, (E,) int64."""
        return self.length.cumsum(0) - self.length

    @property
    def step_task(self) -> Tensor:
        """Task of each step, for learning from single steps, (S,) int64."""
        return self.task.repeat_interleave(self.length)

    @property
    def next_obs(self) -> Tensor:
        """What each action led to, (S, O)."""
        result = torch.cat([self.obs[1:], self.obs[:1]])
        result[self.start + self.length - 1] = self.last_obs
        return result

    def episode(self, number: int) -> DatasetEpisode:
        """Cut one episode out."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no episode {number} among {len(self)}")
        start, length = int(self.start[number]), int(self.length[number])
        rows = slice(start, start + length)
        parts = {name: getattr(self, name)[rows] for name in _STEPS[1:]}
        obs = torch.cat([self.obs[rows], self.last_obs[number][None]])
        return DatasetEpisode(self.tasks[int(self.task[number])], int(self.seed[number]), obs, **parts)


def load(folder: str | Path, *, any_version: bool = False) -> EpisodeDataset:
    """Read a whole recording into memory.

    Args:
        folder: Where `polytask collect` wrote to.
        any_version: Accept tasks whose reward or reset has changed since they were recorded.

    Raises:
        UserError: If there is no recording, a file is missing or damaged, or a task has changed since.
    """
    parts = list(stream(folder, any_version=any_version))
    joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in (*_STEPS, *_EPISODES)}
    return EpisodeDataset(parts[0].tasks, parts[0].index, **joined)


def stream(folder: str | Path, *, any_version: bool = False) -> Iterator[EpisodeDataset]:
    """Read a recording shard by shard: for what does not fit into memory. Arguments and errors are those of `load`."""
    folder = Path(folder).expanduser()
    index = read_index(folder)
    if not any_version:
        _check_versions(folder, index["tasks"])
    for shard in index["shards"]:
        yield EpisodeDataset(tuple(index["tasks"]), index, **_read(folder / shard["file"]))


def read_index(folder: Path) -> dict[str, Any]:
    """Read what a recording consists of."""
    path = folder / INDEX
    if not path.is_file():
        raise UserError(f"'{folder}' holds no recording: there is no {INDEX}")
    try:
        index = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read: {error}") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise UserError(f"'{path}' is not a recording of format {FORMAT}")
    return index


def _check_versions(folder: Path, tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """Insist that the tasks are still what they were."""
    for name, recorded in tasks.items():
        current = TASKS[name].version if name in TASKS else None
        if current != recorded["version"]:
            now = "it is gone" if current is None else f"it is version {current} now"
            raise UserError(
                f"'{folder}' holds version {recorded['version']} of '{name}', and {now}; load(..., any_version=True)"
            )


def _read(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one shard."""
    try:
        with np.load(path) as file:
            return {name: torch.from_numpy(file[name]) for name in (*_STEPS, *_EPISODES)}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"'{path}' is missing or damaged: {error}") from error
