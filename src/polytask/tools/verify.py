"""Check our tasks against reference episodes of Meta-World.

Every reference step becomes one world. The objects are placed according to the episode's random vector, and the joint
positions are loaded from the file. Then observation, reward and success are computed and compared with those in the
file. The tool position at the start of an episode and the frame after the reset are read from the file: both come from
the settling phase of Meta-World, not from the task.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from polytask.config.schema import VerifyConfig
from polytask.envs.domain import Buffers
from polytask.envs.make import resolve
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import FRAME, Task
from polytask.envs.manipulation.tasks import TASKS
from polytask.envs.manipulation.worlds import ACTIONS, ManipulationGroup
from polytask.envs.options import EnvOptions
from polytask.errors import UserError
from polytask.result import Result, Table

OBS_TOLERANCE = 1e-3
REWARD_TOLERANCE = 1e-2
SUCCESS_AGREEMENT = 0.999
_SUFFIX = "-v3.npz"


@dataclass(frozen=True)
class Comparison:
    """The differences between a task and its reference episodes."""

    steps: int
    obs_max: float
    obs_mean: float
    reward_max: float
    reward_mean: float
    success_agreement: float

    @property
    def passed(self) -> bool:
        """Whether all three figures are within tolerance."""
        return (
            self.obs_max <= OBS_TOLERANCE
            and self.reward_max <= REWARD_TOLERANCE
            and self.success_agreement >= SUCCESS_AGREEMENT
        )


def verify(config: VerifyConfig) -> Result:
    """Run `polytask verify`. The exit code is 1 if a difference exceeds its tolerance."""
    if config.oracle is None:
        raise UserError("name the folder of Meta-World's reference episodes: oracle=DIR")
    files = oracle_files(Path(config.oracle).expanduser())
    wanted = [task for task in files if task in TASKS] if config.tasks is None else config.tasks
    for task in wanted:
        if task not in files or task not in TASKS:
            raise UserError(f"no episode of '{task}' in '{config.oracle}', or no such task")
    found = {task: compare(TASKS[task], files[task]) for task in wanted}
    payload = {"tasks": {task: asdict(one) for task, one in found.items()}}
    columns = ("task", "steps", "obs max", "obs mean", "reward max", "reward mean", "success agreement", "verdict")
    rows = []
    for task, one in found.items():
        errors = (one.obs_max, one.obs_mean, one.reward_max, one.reward_mean)
        rows.append((task, one.steps, *errors, f"{one.success_agreement:.4f}", "ok" if one.passed else "off"))
    is_off = not all(one.passed for one in found.values())
    return Result(payload, [Table("differences from Meta-World", columns, rows)], exit_code=int(is_off))


def oracle_files(folder: Path) -> dict[str, Path]:
    """Return the files of reference episodes in a folder, by task name."""
    if not folder.is_dir():
        raise UserError(f"there is no folder '{folder}'")
    found = {path.name.removesuffix(_SUFFIX): path for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    if not found:
        raise UserError(f"no <task>{_SUFFIX} file in '{folder}'")
    return found


def compare(task: Task, path: Path) -> Comparison:
    """Recompute every reference step of a task and compare."""
    try:
        with path.open("rb") as stream, np.load(stream) as file:
            record = {name: file[name] for name in file.files}
        lengths = record["ep_len"]
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise UserError(f"'{path}' is not a readable file of reference episodes: {error}") from error
    episode = np.repeat(np.arange(len(lengths)), lengths)  # episode of each step
    frame, reward, success = _recompute(task, record, episode)
    first_rows = torch.from_numpy(record["ep_start"].astype(np.int64))
    previous = torch.cat([frame[:1], frame[:-1]])
    previous[first_rows] = torch.from_numpy(record["ep_obs0"][:, :FRAME])
    recorded = torch.from_numpy(record["obs"])
    obs = torch.cat([frame, previous, _target(task, record, episode)], -1)
    obs_error = (obs - recorded).abs()
    reward_error = (reward - torch.from_numpy(record["reward"])).abs()
    agreement = (success == torch.from_numpy(record["success"]).bool()).float().mean()
    return Comparison(
        steps=len(episode),
        obs_max=float(obs_error.max()),
        obs_mean=float(obs_error.mean()),
        reward_max=float(reward_error.max()),
        reward_mean=float(reward_error.mean()),
        success_agreement=float(agreement),
    )


def _target(task: Task, record: dict[str, np.ndarray], episode: np.ndarray) -> Tensor:
    return task.start.place(torch.from_numpy(record["ep_rand_vec"][episode])).target


def _recompute(task: Task, record: dict[str, np.ndarray], episode: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Return our frame (T, 18), reward (T,) and success (T,) for every reference step."""
    steps = len(episode)
    config = resolve(EnvOptions(tasks=[task.name], num_envs=steps, sim="cpu"))
    buffers = Buffers.allocate(steps, config)
    buffers.action.copy_(torch.from_numpy(record["action"]).reshape(steps, ACTIONS))
    group = ManipulationGroup([(task, steps)], buffers, config)
    worlds = group.tasks[0]
    everything = torch.ones(steps, dtype=torch.bool)
    worlds.restart_from(everything, torch.from_numpy(record["ep_rand_vec"][episode]))
    worlds.state.tcp_init.copy_(torch.from_numpy(record["ep_init_tcp"][episode]))
    qpos, qvel = torch.from_numpy(record["qpos"]), torch.from_numpy(record["qvel"])
    model = group.batch.model
    if qpos.shape[1] != model.nq:
        raise UserError(f"'{task.name}': the file has {qpos.shape[1]} joint positions, the model {model.nq}")
    group.batch.reset(everything, qpos, qvel)
    group.batch.mocap_pos[:, int(model.body("mocap").mocapid[0])] = torch.from_numpy(record["mocap_pos"])
    group.batch.forward()
    group.observe()
    worlds.state.first_obj.copy_(_first_obj(worlds.state, record, episode))
    reward, success = task.reward(worlds.state)
    return group.frame, reward, success


def _first_obj(state: State, record: dict[str, np.ndarray], episode: np.ndarray) -> Tensor:
    """Return the object's position after the first step of each step's episode. (T, 3)

    It is read from the world of that step. A recording that begins later does not have it, and the intended start
    replaces it. After a reset, and only then, the two frames of an observation are equal.
    """
    frame, previous = record["ep_obs0"][:, :FRAME], record["ep_obs0"][:, FRAME : 2 * FRAME]
    begins = torch.from_numpy((frame == previous).all(1)[episode])
    first = torch.from_numpy(record["ep_start"].astype(np.int64)[episode])
    return torch.where(begins[:, None], state.obj[first], state.obj_init)
