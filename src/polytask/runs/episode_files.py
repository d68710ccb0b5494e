"""The files of a data set of episodes: shards `shard-00000.npz` of whole episodes, and `index.json`.

A shard is written to a temporary file and renamed. Only then is it added to the index. So a data set can be read after
a kill at any moment. `polytask.datasets.read` reads data sets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.envs.multi_task import MultiTaskEnv
from polytask.files import finite, write_atomically, write_text
from polytask.runs.provenance import provenance

FORMAT = 1  # increased when the layout of the files changes
INDEX = "index.json"
SHARDS = "shard-*.npz"
_SUMS = ("episodes", "steps", "success", "return")

Arrays = dict[str, NDArray[Any]]


class EpisodeFiles:
    """Writes shards and the index, and sums up the episodes of each task.

    Attributes:
        folder: The folder of the data set, which exists when the first shard is added.
        shards: File, number of episodes and number of steps of each shard.
    """

    def __init__(self, folder: Path, env: MultiTaskEnv, config: dict[str, Any], **about: Any) -> None:
        """Store what all shards have in common.

        Args:
            folder: The folder of the data set.
            env: The worlds that are recorded.
            config: Settings of the command.
            about: Other entries of the index.
        """
        self.folder = folder
        self.shards: list[dict[str, Any]] = []
        self._sums = {task.name: dict.fromkeys(_SUMS, 0.0) for task in env.config.tasks}
        self._versions = {task.name: task.version for task in env.config.tasks}
        self._header = {
            "format": FORMAT,
            "obs_dim": env.spec.obs_dim,
            "action_dim": env.spec.action_dim,
            "episode_length": env.spec.episode_length,
            "robot": env.config.robot.name,
            "config": config,
            **about,
            **provenance(env.device),
        }

    def add(self, arrays: Arrays, **about: Any) -> None:
        """Write a shard.

        Args:
            arrays: The steps of the episodes, one episode after the other, and what is known of each episode; see
                `docs/collect.md`.
            about: Other entries of the shard in the index.
        """
        name = shard_name(len(self.shards))
        write_atomically(self.folder / name, lambda temporary: _save(temporary, arrays))
        length = arrays["length"]
        self.shards.append({"file": name, "episodes": len(length), "steps": int(length.sum()), **about})
        self._count(arrays)
        self.write_index()

    def write_index(self) -> None:
        """Write the index."""
        write_text(self.folder / INDEX, json.dumps(finite(self.summary()), indent=1) + "\n")

    def summary(self) -> dict[str, Any]:
        """Return the content of the index."""
        tasks = {}
        for name, sums in self._sums.items():
            count = max(sums["episodes"], 1.0)
            tasks[name] = {
                "version": self._versions[name],
                "episodes": int(sums["episodes"]),
                "steps": int(sums["steps"]),
                "success": sums["success"] / count,
                "return": sums["return"] / count,
            }
        return {**self._header, "tasks": tasks, "shards": self.shards}

    def state_dict(self) -> dict[str, Any]:
        """Return what has been written so far."""
        return {
            "shards": [dict(shard) for shard in self.shards],
            "sums": {task: dict(sums) for task, sums in self._sums.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned. The files must exist."""
        self.shards = [{**shard, "file": shard_name(number)} for number, shard in enumerate(state["shards"])]
        self._sums = {task: {name: float(state["sums"][task][name]) for name in _SUMS} for task in self._sums}

    def _count(self, arrays: Arrays) -> None:
        """Add the episodes of a shard to the sums per task."""
        starts = np.cumsum(arrays["length"]) - arrays["length"]
        returns = np.add.reduceat(arrays["reward"].astype(np.float64), starts)
        success = np.logical_or.reduceat(arrays["success"], starts)
        for index, sums in enumerate(self._sums.values()):
            rows = arrays["task"] == index
            sums["episodes"] += float(rows.sum())
            sums["steps"] += float(arrays["length"][rows].sum())
            sums["success"] += float(success[rows].sum())
            sums["return"] += float(returns[rows].sum())


def shard_name(number: int) -> str:
    """Return the file name of a shard."""
    return f"shard-{number:05d}.npz"


def _save(path: Path, arrays: Arrays) -> None:
    """Write arrays to exactly this path. NumPy would append a suffix to a file name, so give it an open file."""
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
