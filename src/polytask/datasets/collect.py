"""Write episodes of a policy to a data set, for distillation and offline learning.

A data set is a folder with `index.json` and shards `shard-00000.npz`. Each shard contains whole episodes. A shard is
written to a temporary file and renamed. Only then is it added to the index. So a data set can be read after a kill at
any moment. `read.py` reads data sets.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from polytask.config.compose import to_plain
from polytask.config.schema import CollectConfig
from polytask.datasets.collect_lerobot import LeRobotExport
from polytask.datasets.export_folder import export_folder
from polytask.datasets.lerobot import check_pyarrow
from polytask.datasets.minari import check_minari, to_minari
from polytask.datasets.played import PlayedEpisodes, play, seed_of
from polytask.datasets.read import FORMAT, INDEX
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.files import can_write, make_folder, write_atomically, write_text
from polytask.result import Result, Table
from polytask.runs.provenance import provenance
from polytask.runs.setup import WORLDS_PER_TASK, build_env, build_policy, check_source

Arrays = dict[str, NDArray[Any]]


def collect(config: CollectConfig) -> Result:
    """Run `polytask collect`."""
    check_source(config)
    folder = _check(config)
    worlds = min(_worlds_per_task(config), config.episodes)
    env = build_env(config, num_envs=worlds * len(config.task_names))
    policy = build_policy(config, env)
    make_folder(folder)
    with can_write(folder), TemporaryFile(dir=folder):  # where nothing can be written, fail here, before the slow part
        pass
    writer = DatasetWriter(folder, env, to_plain(config))
    with ExitStack() as stack:
        export = _lerobot(config, env, folder, stack)
        for number, first in enumerate(range(0, config.episodes, worlds)):
            episodes = play(env, policy, seed_of(config.seed, number), export)
            keep = min(worlds, config.episodes - first)
            writer.add(episodes, keep)
            if export is not None:
                export.add(episodes, keep)
        if export is not None:
            export.finish()
    env.close()
    payload, lines = writer.summary(), [f"data set: {folder} ({len(writer.shards)} shards)"]
    if config.export == "minari":
        payload["minari"] = to_minari(folder, folder / "minari")
        lines.append(f"Minari data sets: {folder / 'minari'}")
    if export is not None:
        payload["lerobot"] = {"root": str(folder / "lerobot"), "frames": export.frames}
        lines.append(f"LeRobot data set: {folder / 'lerobot'} ({export.frames} frames)")
    rows = [(name, *one.values()) for name, one in payload["tasks"].items()]
    columns = ("task", "version", "episodes", "steps", "success", "return")
    title = f"{config.policy or config.checkpoint}: {config.episodes} episodes per task"
    return Result(payload, [Table(title, columns, rows)], lines)


def _check(config: CollectConfig) -> Path:
    """Check the config before anything slow happens, and return the folder to write to."""
    if config.output is None:
        raise UserError("name the folder to write to: output=DIR")
    folder = Path(config.output).expanduser()
    if (folder / INDEX).exists():
        raise UserError(f"'{folder}' already contains a data set; name another folder")
    if config.export == "minari":
        check_minari()
    elif config.export == "lerobot":
        check_pyarrow()
    return folder


def _lerobot(config: CollectConfig, env: MultiTaskEnv, folder: Path, stack: ExitStack) -> LeRobotExport | None:
    """Begin a LeRobot data set if one is wanted; the end of `stack` frees what it uses, and removes half a data set."""
    if config.export != "lerobot":
        return None
    stack.enter_context(export_folder(folder / "lerobot"))
    export = LeRobotExport(env, folder / "lerobot", config)
    stack.callback(export.close)
    return export


def _worlds_per_task(config: CollectConfig) -> int:
    """Return the number of worlds per task. A shard contains one episode of each world."""
    tasks = len(config.task_names)
    if config.num_envs is None:
        return WORLDS_PER_TASK
    if config.num_envs % tasks:
        raise UserError(f"num_envs={config.num_envs} must be a multiple of the number of tasks, {tasks}")
    return config.num_envs // tasks


class DatasetWriter:
    """Write the shards of a data set and its index."""

    def __init__(self, folder: Path, env: MultiTaskEnv, config: dict[str, Any]) -> None:
        """Store what all shards have in common."""
        self.folder = folder
        self.shards: list[dict[str, Any]] = []
        self._task = env.task.cpu()
        self._worlds = env.spec.envs_per_task[0]
        names = ("episodes", "steps", "success", "return")
        self._sums = {task.name: dict.fromkeys(names, 0.0) for task in env.config.tasks}
        self._versions = {task.name: task.version for task in env.config.tasks}
        self._header = {
            "format": FORMAT,
            "obs_dim": env.spec.obs_dim,
            "action_dim": env.spec.action_dim,
            "episode_length": env.spec.episode_length,
            "robot": env.config.robot.name,
            "config": config,
            **provenance(env.device),
        }

    def add(self, episodes: PlayedEpisodes, keep: int) -> None:
        """Write the first `keep` episodes of every task as one shard."""
        world = torch.arange(len(self._task)) % self._worlds
        chosen = world < keep
        length = episodes.length.cpu()[chosen]
        is_played = torch.arange(len(episodes.steps["obs"])) < length[:, None]  # (E, T)
        arrays: Arrays = {
            name: values.cpu().transpose(0, 1)[chosen][is_played].numpy() for name, values in episodes.steps.items()
        }
        arrays |= {
            "task": self._task[chosen].numpy(),
            "world": world[chosen].numpy(),
            "seed": np.full(int(chosen.sum()), episodes.seed),
            "length": length.numpy(),
            "last_obs": episodes.last_obs.cpu()[chosen].numpy(),
        }
        name = f"shard-{len(self.shards):05d}.npz"
        write_atomically(self.folder / name, lambda temporary: _save(temporary, arrays))
        self.shards.append({"file": name, "episodes": len(length), "steps": int(length.sum())})
        self._count(arrays)
        write_text(self.folder / INDEX, json.dumps(self.summary(), indent=1) + "\n")

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


def _save(path: Path, arrays: Arrays) -> None:
    """Write arrays to exactly this path. NumPy would append a suffix to a file name, so give it an open file."""
    with path.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
