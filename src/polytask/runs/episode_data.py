"""Read the data sets that `polytask collect` writes, and the training histories of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from polytask.envs.tasks import TASKS
from polytask.errors import UserError
from polytask.files import check_fields, read_json
from polytask.runs.episode_files import FORMAT, INDEX

_STEPS = ("obs", "action", "reward", "success", "terminated", "truncated")
_EPISODES = ("task", "world", "seed", "length", "last_obs")
_WIDTHS = {"obs": "obs_dim", "last_obs": "obs_dim", "action": "action_dim"}  # fields of the index
_DTYPES = dict.fromkeys(("obs", "last_obs", "action", "reward"), torch.float32)
_DTYPES |= dict.fromkeys(("success", "terminated", "truncated"), torch.bool)
_DTYPES |= dict.fromkeys(("task", "world", "seed", "length", "iteration", "frames"), torch.int64)
_INDEX = {
    "format": int,
    "obs_dim": int,
    "action_dim": int,
    "robot": str,
    "config": {"policy": str | None},
    "tasks": dict,
    "shards": list,
}
_SHARD = {"file": str, "episodes": int, "steps": int}


@dataclass(frozen=True)
class DatasetEpisode:
    """One episode of L steps."""

    task: str
    seed: int
    obs: Tensor  # (L + 1, O) the last row is the observation after the last action
    action: Tensor  # (L, A)
    reward: Tensor  # (L,)
    success: Tensor  # (L,) bool
    terminated: Tensor  # (L,) bool
    truncated: Tensor  # (L,) bool


@dataclass(frozen=True)
class EpisodeDataset:
    """S steps of E episodes, one episode after the other.

    Attributes:
        tasks: Names of the tasks. `task` is an index into them.
        index: Content of `index.json`: versions of the tasks, config of the command, shards.
        obs: Observation before the action. (S, O)
        action: Action in [-1, 1]. (S, A)
        reward: (S,)
        success: The task's success test was true after the step. (S,) bool
        terminated: The episode reached a true end, whose value is zero. (S,) bool
        truncated: The episode was cut off (time limit, diverged simulation). (S,) bool
        task: Task of each episode. (E,) int64
        world: Number of the episode's world among the worlds of its task. (E,) int64
        seed: Seed with which the worlds were reset. (E,) int64
        length: Number of steps of each episode. (E,) int64
        last_obs: Observation after the last action of each episode. (E, O)
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
        """Return the number of episodes."""
        return len(self.length)

    @property
    def start(self) -> Tensor:
        """Index of each episode's first step, (E,) int64."""
        return self.length.cumsum(0) - self.length

    @property
    def step_task(self) -> Tensor:
        """Task of each step, for learning from single steps, (S,) int64."""
        return self.task.repeat_interleave(self.length)

    @property
    def next_obs(self) -> Tensor:
        """Observation after each action, (S, O)."""
        result = torch.cat([self.obs[1:], self.obs[:1]])
        result[self.start + self.length - 1] = self.last_obs
        return result

    def rows_of(self, numbers: Tensor) -> Tensor:
        """Return the indices of the steps of some episodes, one episode after the other. (S',) int64"""
        length = self.length[numbers]
        begin = (length.cumsum(0) - length).repeat_interleave(length)
        return self.start[numbers].repeat_interleave(length) + torch.arange(len(begin)) - begin

    def select(self, numbers: Tensor) -> EpisodeDataset:
        """Return some episodes, in the order of their numbers (E',) int64."""
        rows = self.rows_of(numbers)
        steps = {name: getattr(self, name)[rows] for name in _STEPS}
        return EpisodeDataset(
            self.tasks, self.index, **steps, **{name: getattr(self, name)[numbers] for name in _EPISODES}
        )

    def episode(self, number: int) -> DatasetEpisode:
        """Return one episode."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no episode {number}; the data set has {len(self)}")
        start, length = int(self.start[number]), int(self.length[number])
        rows = slice(start, start + length)
        parts = {name: getattr(self, name)[rows] for name in _STEPS[1:]}
        obs = torch.cat([self.obs[rows], self.last_obs[number][None]])
        return DatasetEpisode(self.tasks[int(self.task[number])], int(self.seed[number]), obs, **parts)


def load(folder: str | Path, *, any_version: bool = False) -> EpisodeDataset:
    """Read a whole data set into memory.

    Args:
        folder: The folder that `polytask collect` wrote.
        any_version: Accept tasks whose reward or reset has changed since the data set was written.

    Raises:
        UserError: If there is no data set, a file is missing or damaged, or a task has changed.
    """
    return load_with(folder, (), any_version=any_version)[0]


def load_with(
    folder: str | Path, more: Sequence[str], *, any_version: bool = False
) -> tuple[EpisodeDataset, dict[str, Tensor]]:
    """Read a whole data set and other columns of its steps, each (S,) int64. The rest is that of `load`."""
    index, shards = _shards(folder, tuple(more), any_version=any_version)
    parts = list(shards)
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    others = {name: joined.pop(name) for name in more}
    return EpisodeDataset(tuple(index["tasks"]), index, **joined), others


def stream(folder: str | Path, *, any_version: bool = False) -> Iterator[EpisodeDataset]:
    """Read a data set shard by shard, if it does not fit into memory. Arguments and errors are those of `load`."""
    index, shards = _shards(folder, (), any_version=any_version)
    for shard in shards:
        yield EpisodeDataset(tuple(index["tasks"]), index, **shard)


def _shards(
    folder: str | Path, more: tuple[str, ...], *, any_version: bool
) -> tuple[dict[str, Any], Iterator[dict[str, Tensor]]]:
    """Read the index of a data set, and return it with what reads the tensors of its shards, one after the other."""
    folder = Path(folder).expanduser()
    index = read_index(folder)
    if not any_version:
        _check_versions(folder, index["tasks"])
    return index, (_read(folder, index, shard, more) for shard in index["shards"])


def read_index(folder: Path) -> dict[str, Any]:
    """Read the index of a data set."""
    path = folder / INDEX
    if not path.is_file():
        raise UserError(f"'{folder}' contains no data set: there is no {INDEX}")
    index = read_json(path, "index of a data set", _INDEX)
    if index["format"] != FORMAT:
        raise UserError(f"'{path}' has format {index['format']}; this version of polytask reads format {FORMAT}")
    check_fields(index["tasks"], {name: {"version": int} for name in index["tasks"]}, path, "tasks.")
    shards = {f"shards[{number}]": shard for number, shard in enumerate(index["shards"])}
    check_fields(shards, dict.fromkeys(shards, _SHARD), path)
    if not index["tasks"] or not shards:
        raise UserError(f"'{path}' is damaged: it names no {'shards' if index['tasks'] else 'tasks'}")
    return index


def _check_versions(folder: Path, tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that the tasks have the same versions as when the data set was written."""
    for name, saved in tasks.items():
        current = TASKS[name].version if name in TASKS else None
        if current != saved["version"]:
            now = "is unknown now" if current is None else f"has version {current} now"
            raise UserError(
                f"'{folder}' has version {saved['version']} of '{name}', which {now}; collect the episodes again, or "
                "read them with load(..., any_version=True)"
            )


def _read(folder: Path, index: Mapping[str, Any], shard: Mapping[str, Any], more: tuple[str, ...]) -> dict[str, Tensor]:
    """Read the tensors of one shard, with more columns of steps, and check that they fit together."""
    path, name, tensors = folder / shard["file"], "", {}
    try:
        with path.open("rb") as raw, np.load(raw) as file:
            for name in (*_STEPS, *more, *_EPISODES):
                tensors[name] = torch.from_numpy(file[name])
    except Exception as error:  # a damaged archive raises errors of zipfile, zlib, NumPy and Python
        where = f"array '{name}': " if name else ""
        raise UserError(f"'{path}' is missing or damaged: {where}{error}") from error
    for name, tensor in tensors.items():
        rows = shard["episodes" if name in _EPISODES else "steps"]
        shape = (rows, index[_WIDTHS[name]]) if name in _WIDTHS else (rows,)
        if tensor.dtype != _DTYPES[name] or tensor.shape != shape:
            expected = f"{shape} of type {_DTYPES[name]}"
            raise UserError(
                f"'{path}' is damaged: '{name}' has shape {tuple(tensor.shape)} of type {tensor.dtype}, not {expected}"
            )
    task, length = tensors["task"], tensors["length"]
    if ((task < 0) | (task >= len(index["tasks"]))).any():
        raise UserError(f"'{path}' is damaged: 'task' has numbers outside 0 to {len(index['tasks']) - 1}")
    if (length < 1).any() or length.sum() != shard["steps"]:
        raise UserError(f"'{path}' is damaged: the entries of 'length' do not add up to {shard['steps']} steps")
    return tensors
