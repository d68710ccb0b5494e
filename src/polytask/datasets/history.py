"""Read the training history of a run: what some worlds did from the first to the last iteration, in order of time.

This is the data of offline multi-task learning over policies of all qualities, and of in-context learning: algorithm
distillation (Laskin et al. 2022, arXiv 2210.14215) trains a sequence model on windows that reach over many episodes, so
that the model sees a policy improve.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.runs.episode_data import EpisodeDataset, load_with, read_index
from polytask.runs.episode_files import INDEX
from polytask.runs.history.writer import FOLDER

_OF_RUN = ("iteration", "frames")  # columns of steps that only a history has


class Window(NamedTuple):
    """L steps of one world, one after the other; an episode may end at any of them. With a batch axis if collated."""

    task: Tensor  # () int64, index into the tasks of the history
    obs: Tensor  # (L, O) before the action
    action: Tensor  # (L, A) as applied, in [-1, 1]
    reward: Tensor  # (L,)
    success: Tensor  # (L,) bool
    terminated: Tensor  # (L,) bool
    truncated: Tensor  # (L,) bool
    iteration: Tensor  # (L,) int64, in which the step was taken, from 1
    frames: Tensor  # (L,) int64, control steps of all worlds before this one


@dataclass(frozen=True)
class TrainingHistory:
    """The history of a run.

    Attributes:
        episodes: The kept episodes, sorted by task and world; those of a world are in order of time.
        iteration: The iteration in which each step was taken, from 1. (S,) int64
        frames: Control steps of all worlds of the run before each step. (S,) int64
    """

    episodes: EpisodeDataset
    iteration: Tensor
    frames: Tensor

    @property
    def worlds(self) -> list[tuple[str, int]]:
        """The worlds that have episodes: task, and number among the kept worlds of the task."""
        data = self.episodes
        pairs = torch.stack([data.task, data.world], -1).unique_consecutive(dim=0).tolist()
        return [(data.tasks[task], world) for task, world in pairs]

    def numbers(self, task: str, world: int | None = None) -> list[int]:
        """Return the numbers of a task's episodes, or of those in one world, which are in order of time.

        Raises:
            UserError: If there are none.
        """
        data = self.episodes
        if task not in data.tasks:
            raise UserError(f"the history has no task '{task}'; it has {', '.join(data.tasks)}")
        chosen = data.task == data.tasks.index(task)
        chosen = chosen if world is None else chosen & (data.world == world)
        if not chosen.any():
            where = "" if world is None else f" in world {world}"
            raise UserError(f"the history has no episode of '{task}'{where}")
        return chosen.nonzero()[:, 0].tolist()

    @property
    def returns(self) -> Tensor:
        """Sum of the rewards of each episode, (E,) float64."""
        return self._per_episode(self.episodes.reward)

    @property
    def successes(self) -> Tensor:
        """Whether the task succeeded at any step of each episode, (E,) bool."""
        return self._per_episode(self.episodes.success) > 0

    def _per_episode(self, column: Tensor) -> Tensor:
        """Add up a column of steps (S,) over each episode. (E,) float64"""
        length = self.episodes.length
        owner = torch.arange(len(length)).repeat_interleave(length)
        return torch.zeros(len(length), dtype=torch.float64).index_add_(0, owner, column.double())

    def windows(self, length: int, stride: int = 1) -> Windows:
        """Return all windows of `length` steps, over the ends of episodes but never from one world to another.

        Args:
            length: Steps of a window.
            stride: Steps from the start of a window to the start of the next one in the same world.

        Raises:
            UserError: If a number is below 1, or no world has so many steps.
        """
        return Windows(self, length, stride)


class Windows:
    """Windows of a history, as a data set for `torch.utils.data.DataLoader`."""

    def __init__(self, history: TrainingHistory, length: int, stride: int) -> None:
        """Find the starts of all windows. (W,)"""
        if min(length, stride) < 1:
            raise UserError(f"windows need a length and a stride of at least 1, not {length} and {stride}")
        data = history.episodes
        world = torch.stack([data.task, data.world], -1).repeat_interleave(data.length, dim=0)  # (S, 2)
        _, steps = world.unique_consecutive(dim=0, return_counts=True)
        if int(steps.max()) < length:
            raise UserError(f"no window of {length} steps fits: the longest world has {int(steps.max())}")
        first = steps.cumsum(0) - steps
        starts = [
            torch.arange(begin, begin + count - length + 1, stride)
            for begin, count in zip(first.tolist(), steps.tolist(), strict=True)
            if count >= length
        ]
        self._history, self._length, self._start = history, length, torch.cat(starts)
        self._task = world[:, 0]

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self._start)

    def __getitem__(self, number: int) -> Window:
        """Return one window."""
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no window {number}; there are {len(self)}")
        start = int(self._start[number])
        rows, data = slice(start, start + self._length), self._history.episodes
        return Window(
            task=self._task[start],
            obs=data.obs[rows],
            action=data.action[rows],
            reward=data.reward[rows],
            success=data.success[rows],
            terminated=data.terminated[rows],
            truncated=data.truncated[rows],
            iteration=self._history.iteration[rows],
            frames=self._history.frames[rows],
        )


def load_history(folder: str | Path, *, any_version: bool = False) -> TrainingHistory:
    """Read the whole history of a run into memory.

    Args:
        folder: The folder of the run, or that of its history.
        any_version: Accept tasks whose reward or reset has changed since.

    Raises:
        UserError: If there is no history, a file is missing or damaged, or a task has changed.
    """
    folder = Path(folder).expanduser()
    folder = folder if (folder / INDEX).is_file() else folder / FOLDER
    if "history" not in read_index(folder):
        raise UserError(f"'{folder}' is not the history of a run; read it with polytask.datasets.read.load")
    data, columns = load_with(folder, _OF_RUN, any_version=any_version)
    # In the shards, the episodes of a world are in order of time already.
    order = torch.argsort(data.task * (int(data.world.max()) + 1) + data.world, stable=True)
    rows = data.rows_of(order)
    return TrainingHistory(data.select(order), **{name: column[rows] for name, column in columns.items()})
