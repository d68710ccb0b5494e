"""Turn the steps of some worlds, which come an iteration at a time, into shards of whole episodes.

Episodes that have not ended are kept in memory, and in the checkpoint. A shard is written before each checkpoint, and
earlier if there is much to write. A run that continues from a checkpoint removes the shards that came after it and
records the same steps again. So the history has neither gaps nor repeats.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polytask.config.compose import to_plain
from polytask.config.schema import TrainConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.files import can_write, exists, make_folder, remove_stale_parts
from polytask.runs.episode_files import INDEX, SHARDS, Arrays, EpisodeFiles

FOLDER = "history"  # in the folder of a run
SHARD_BYTES = 64_000_000  # of arrays in memory, above which a shard does not wait for the next checkpoint
SLOT = "slot"  # column of rows in memory: the number of the row's world among the kept ones


class HistoryWriter:
    """Collects the rows of n worlds, and writes those of episodes that have ended."""

    def __init__(
        self, env: MultiTaskEnv, config: TrainConfig, task: NDArray[np.int64], world: NDArray[np.int64]
    ) -> None:
        """Start without rows.

        Args:
            env: The worlds.
            config: Settings of the run.
            task: Task of each kept world. (n,)
            world: Number of each kept world among the worlds of its task. (n,)
        """
        self._options, self._seed, self._task, self._world = config.history, config.seed, task, world
        about = {"history": {"algo": config.algo.name, **vars(config.history)}}
        self.files = EpisodeFiles(Path(FOLDER), env, to_plain(config), **about)  # `open` sets the folder
        self._episode_length = env.spec.episode_length
        self._open = _no_rows(env.spec.obs_dim, env.spec.action_dim)  # of episodes that go on, by world and time
        self._blocks: list[Arrays] = []  # rows that came since then, by time and world
        self._ends: list[NDArray[Any]] = []  # observation after each of their rows that ends an episode
        self._waiting = 0  # bytes of the blocks
        self._closed: list[Arrays] = []  # shards to be, of whole episodes
        self._counts = np.zeros(len(task), np.int64)  # episodes of each world so far, kept or not

    def open(self, folder: Path, source: Path | None) -> None:
        """Prepare the folder, so that it has exactly the shards of the state that was loaded.

        Args:
            folder: The folder of the data set.
            source: That of the run that is continued; None for a new run.

        Raises:
            UserError: If a shard is missing, or there is another data set.
        """
        self.files.folder, names = folder, [shard["file"] for shard in self.files.shards]
        is_continued = source is not None and source.resolve() == folder.resolve()
        if not is_continued and exists(folder / INDEX):
            raise UserError(f"'{folder}' already contains a data set; name another run_dir")
        for name in names:
            if source is None or not exists(source / name):
                raise UserError(f"the history lacks '{name}'; use history.worlds=0 to go on without a history")
        make_folder(folder)
        with can_write(folder):
            if source is not None and not is_continued:
                for name in names:
                    shutil.copyfile(source / name, folder / name)
            # The index comes first: it never names a shard that is not there.
            if names:
                self.files.write_index()
            else:
                (folder / INDEX).unlink(missing_ok=True)
            for path in folder.glob(SHARDS):
                if path.name not in names:
                    path.unlink()
        remove_stale_parts(folder)

    def bytes_of(self, steps: int) -> int:
        """Return about how many bytes the arrays of a history with so many steps of every world have."""
        rows = len(self._task) * steps // self._options.every
        of_row = sum(_row_bytes(column) for name, column in self._open.items() if name != SLOT)
        of_episode = _row_bytes(self._open["obs"]) + 4 * 8  # the last observation and four numbers
        return rows * of_row + rows // self._episode_length * of_episode

    def line(self) -> str:
        """Say where the history is and how much it has."""
        shards = self.files.shards
        episodes, steps = (sum(shard[name] for shard in shards) for name in ("episodes", "steps"))
        return f"history: {self.files.folder} ({episodes:,} episodes, {steps:,} steps)"

    def add(self, steps: Arrays, iteration: int, frames: NDArray[np.int64]) -> None:
        """Take T steps of all kept worlds.

        Args:
            steps: Columns (T, n, ...) of `recorder.StagedSteps`, which the caller does not change any more.
            iteration: In which the steps were taken.
            frames: Frames of the run before each step. (T,)
        """
        shape = steps["reward"].shape
        ended = steps["terminated"] | steps["truncated"]
        self._ends.append(steps["next_obs"][ended])
        rows = {name: steps[name].reshape(-1, *steps[name].shape[2:]) for name in self._open if name in steps}
        rows |= {
            "iteration": np.full(ended.size, iteration, np.int64),
            "frames": np.repeat(frames, shape[1]),
            SLOT: np.tile(np.arange(shape[1]), shape[0]),
        }
        self._blocks.append(rows)
        self._waiting += _bytes(rows)

    def cut(self) -> None:
        """Forget the episodes that go on, because all worlds were reset."""
        self._close()
        self._open = {name: column[:0] for name, column in self._open.items()}

    def relieve(self, iteration: int) -> None:
        """Write a shard if there are many rows in memory; all of them are of this iteration or earlier."""
        if self._waiting >= SHARD_BYTES:
            self._close()
            if sum(map(_bytes, self._closed)) >= SHARD_BYTES:
                self.flush(iteration)

    def flush(self, iteration: int) -> None:
        """Write all episodes that have ended until after this iteration, if there are any."""
        self._close()
        if self._closed:
            self.files.add(_joined(self._closed), iteration=iteration)
            self._closed = []

    def _close(self) -> None:
        """Separate the episodes that have ended from those that go on."""
        rows = _joined([self._open, *self._blocks])
        order = np.argsort(rows[SLOT], kind="stable")
        ended = rows["terminated"] | rows["truncated"]
        number = np.cumsum(ended) - 1  # of the entry in `_ends`
        ends = np.concatenate(self._ends)[number[order][ended[order]]] if self._ends else None
        rows = {name: column[order] for name, column in rows.items()}
        last = np.full(len(self._task), -1)  # row of each world's last end
        where = np.flatnonzero(ended[order])
        np.maximum.at(last, rows[SLOT][where], where)
        is_over = np.arange(len(order)) <= last[rows[SLOT]]
        self._open = {name: column[~is_over] for name, column in rows.items()}
        self._blocks, self._ends, self._waiting = [], [], 0
        if ends is not None and len(where):
            self._keep({name: column[is_over] for name, column in rows.items()}, ends)

    def _keep(self, rows: Arrays, last_obs: NDArray[Any]) -> None:
        """Add episodes to the next shard, those whose turn it is.

        Args:
            rows: Whole episodes, by world and time.
            last_obs: Observation after each of them. (E, O)
        """
        ends = np.flatnonzero(rows["terminated"] | rows["truncated"])
        slot, length = rows.pop(SLOT)[ends], np.diff(ends, prepend=-1)
        number = self._counts[slot] + np.arange(len(slot)) - np.searchsorted(slot, slot)
        self._counts = self._counts + np.bincount(slot, minlength=len(self._counts))
        is_kept = number % self._options.every == 0
        if not is_kept.any():
            return
        in_kept = np.repeat(is_kept, length)
        slot = slot[is_kept]
        self._closed.append(
            {
                **{name: column[in_kept] for name, column in rows.items()},
                "task": self._task[slot],
                "world": self._world[slot],
                "seed": np.full(len(slot), self._seed, np.int64),
                "length": length[is_kept],
                "last_obs": last_obs[is_kept],
            }
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what is needed to go on; `flush` must have been called."""
        return {
            "options": dict(vars(self._options)),
            "files": self.files.state_dict(),
            "counts": torch.from_numpy(self._counts),
            "open": {name: torch.from_numpy(column) for name, column in self._open.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            UserError: If the run kept other episodes.
        """
        for name, value in vars(self._options).items():
            if state["options"][name] != value:
                raise UserError(
                    f"history.{name}={value} does not fit: the run was started with {state['options'][name]}"
                )
        self.files.load_state_dict(state["files"])
        counts, rows = state["counts"].numpy(), {name: state["open"][name].numpy() for name in self._open}
        for name, column in rows.items():
            if column.shape[1:] != self._open[name].shape[1:] or len(column) != len(rows[SLOT]):
                raise ValueError(f"'{name}' has shape {column.shape}")
        if counts.shape != self._counts.shape:
            raise ValueError(f"it counts the episodes of {len(counts)} worlds")
        self._counts, self._open = counts, rows


def _no_rows(obs_dim: int, action_dim: int) -> Arrays:
    """Return the columns of rows in memory, without rows."""
    flags = dict.fromkeys(("success", "terminated", "truncated"), np.bool_)
    numbers = dict.fromkeys(("iteration", "frames", SLOT), np.int64)
    return {
        "obs": np.zeros((0, obs_dim), np.float32),
        "action": np.zeros((0, action_dim), np.float32),
        "reward": np.zeros(0, np.float32),
        **{name: np.zeros(0, kind) for name, kind in {**flags, **numbers}.items()},
    }


def _joined(parts: list[Arrays]) -> Arrays:
    """Put the rows of tables with the same columns together."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _bytes(columns: Arrays) -> int:
    return sum(column.nbytes for column in columns.values())


def _row_bytes(column: NDArray[Any]) -> int:
    return column.itemsize * int(np.prod(column.shape[1:]))
