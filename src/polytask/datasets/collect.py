"""Write episodes of a policy to a data set, for distillation and offline learning."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch

from polytask.config.compose import to_plain
from polytask.config.schema import CollectConfig
from polytask.datasets.collect_lerobot import LeRobotExport
from polytask.datasets.export_folder import export_folder
from polytask.datasets.lerobot import check_pyarrow
from polytask.datasets.minari import check_minari, to_minari
from polytask.datasets.played import PlayedEpisodes, play, seed_of
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.files import can_write, make_folder
from polytask.result import Result, Table
from polytask.runs.episode_files import INDEX, Arrays, EpisodeFiles
from polytask.runs.setup import WORLDS_PER_TASK, build_env, build_policy, check_source


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
    files = writer.files
    payload, lines = files.summary(), [f"data set: {folder} ({_counted(len(files.shards), 'shard')})"]
    if config.export == "minari":
        payload["minari"] = to_minari(folder, folder / "minari")
        lines.append(f"Minari data sets: {folder / 'minari'}")
    if export is not None:
        payload["lerobot"] = {"root": str(folder / "lerobot"), "frames": export.frames}
        lines.append(f"LeRobot data set: {folder / 'lerobot'} ({export.frames} frames)")
    rows = [(name, *one.values()) for name, one in payload["tasks"].items()]
    columns = ("task", "version", "episodes", "steps", "success", "return")
    title = f"{config.policy or config.checkpoint}: {_counted(config.episodes, 'episode')} per task"
    return Result(payload, [Table(title, columns, rows)], lines)


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


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
    """Turn played episodes into the shards of a data set."""

    def __init__(self, folder: Path, env: MultiTaskEnv, config: dict[str, Any]) -> None:
        """Store what all shards have in common."""
        self.files = EpisodeFiles(folder, env, config)
        self._task = env.task.cpu()
        self._worlds = env.spec.envs_per_task[0]

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
        self.files.add(arrays)
