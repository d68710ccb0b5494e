"""Record what some worlds do while an algorithm trains in them.

The recorder takes the place of the environment in `iterate`, so that every algorithm is recorded alike. It copies rows
on the device, and nothing waits for the device: the rows of an iteration travel to the host behind its other work,
before the training loop waits for the metrics anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from polytask.config.schema import TrainConfig
from polytask.envs.multi_task import MultiTaskEnv
from polytask.errors import UserError
from polytask.result import note
from polytask.runs.history.writer import HistoryWriter
from polytask.types import EnvSpec, Step, VecEnv


@dataclass(frozen=True)
class StagedSteps:
    """Up to T steps of n kept worlds, in memory that is allocated once."""

    obs: Tensor  # (T, n, O) before the action
    action: Tensor  # (T, n, A) as applied, in [-1, 1]
    reward: Tensor  # (T, n)
    success: Tensor  # (T, n) bool
    terminated: Tensor  # (T, n) bool
    truncated: Tensor  # (T, n) bool
    next_obs: Tensor  # (T, n, O) after the action, before any reset

    @classmethod
    def allocate(cls, rows: tuple[int, int], spec: EnvSpec, device: torch.device, *, is_pinned: bool) -> StagedSteps:
        """Allocate T x n rows. A GPU copies to pinned memory of the host without waiting."""

        def empty(*width: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(*rows, *width, dtype=dtype, device=device, pin_memory=is_pinned)

        return cls(
            obs=empty(spec.obs_dim),
            action=empty(spec.action_dim),
            reward=empty(),
            success=empty(dtype=torch.bool),
            terminated=empty(dtype=torch.bool),
            truncated=empty(dtype=torch.bool),
            next_obs=empty(spec.obs_dim),
        )

    def first(self, steps: int) -> dict[str, Tensor]:
        """Return the first steps by name, as views."""
        return {name: tensor[:steps] for name, tensor in vars(self).items()}


class Recorder:
    """The environment of a run, which also keeps the steps of some worlds; implements `types.VecEnv`.

    Attributes:
        writer: What makes episodes of the steps, and writes them.
    """

    def __init__(self, env: VecEnv, kept: Tensor, frames: tuple[int, int], writer: HistoryWriter) -> None:
        """Allocate the memory of one iteration.

        Args:
            env: The worlds of this process.
            kept: Numbers of the worlds to record. (n,) int64, on the device of `env`
            frames: Control steps of all worlds, of all ranks, in an iteration and in one step.
            writer: What gets the steps.
        """
        self.spec, self.device, self.task, self.writer = env.spec, env.device, env.task, writer
        self._env, self._kept, self._frames = env, kept, frames[1]
        self._steps = steps = frames[0] // frames[1]
        rows, is_on_gpu = (steps, len(kept)), env.device.type == "cuda"
        self._stage = StagedSteps.allocate(rows, env.spec, env.device, is_pinned=False)
        self._host, self._arrived = self._stage, None
        if is_on_gpu:
            self._host = StagedSteps.allocate(rows, env.spec, torch.device("cpu"), is_pinned=True)
            self._arrived = torch.cuda.Event()
        self._taken = 0  # steps since the last `keep`
        self._resets: list[int] = []  # how many of them had been taken at each reset of all worlds

    @property
    def obs(self) -> Tensor:
        """Current observation, to act on. (N, O)"""
        return self._env.obs

    def reset(self) -> Tensor:
        """Start a new episode in every world. Episodes that this cuts off are not kept."""
        self._resets.append(self._taken)
        return self._env.reset()

    @torch.no_grad()
    def step(self, action: Tensor) -> Step:
        """Apply one action (N, A), and stage the rows of the kept worlds.

        Raises:
            UserError: If an iteration has more steps than the algorithm declares.
        """
        if self._taken == self._steps:
            raise UserError(f"history: an iteration takes more than the {self._steps} steps of `frames_per_iteration`")
        stage, number, kept = self._stage, self._taken, self._kept
        torch.index_select(self._env.obs, 0, kept, out=stage.obs[number])  # before the step overwrites it
        torch.index_select(action.detach(), 0, kept, out=stage.action[number]).clamp_(-1.0, 1.0)
        step = self._env.step(action)
        for name in ("reward", "success", "terminated", "truncated", "next_obs"):
            torch.index_select(getattr(step, name), 0, kept, out=getattr(stage, name)[number])
        self._taken += 1
        return step

    def fetch(self) -> None:
        """Queue the copy of the staged steps to the host; nothing waits for it."""
        if self._arrived is None:
            return
        host = self._host.first(self._taken)
        for name, rows in self._stage.first(self._taken).items():
            host[name].copy_(rows, non_blocking=True)
        self._arrived.record(torch.cuda.current_stream(self.device))

    def keep(self, iteration: int, frames: int) -> None:
        """Hand the steps of an iteration to the writer. `fetch` must have been called.

        Args:
            iteration: Number of the iteration, from 1.
            frames: Frames of the run before it.
        """
        if self._arrived is not None:
            self._arrived.synchronize()  # the loop has waited for later work already
        rows = {name: tensor.numpy() for name, tensor in self._host.first(self._taken).items()}
        counts = frames + np.arange(self._taken, dtype=np.int64) * self._frames
        for number, (begin, end) in enumerate(pairwise((0, *self._resets, self._taken))):
            if number:
                self.writer.cut()
            part = {name: column[begin:end].copy() for name, column in rows.items()}
            self.writer.add(part, iteration, counts[begin:end])
        self._taken, self._resets = 0, []
        self.writer.relieve(iteration)


def build_recorder(config: TrainConfig, env: MultiTaskEnv, frames_per_iteration: int) -> Recorder | None:
    """Build the recorder of a run; None if no history is wanted.

    Args:
        config: Settings of the run.
        env: The worlds of rank 0, which has the first worlds of every task.
        frames_per_iteration: Control steps of all worlds in an iteration.

    Raises:
        UserError: If a task has fewer worlds than are to be kept.
    """
    worlds = config.history.worlds
    if not worlds:
        return None
    counts = env.spec.envs_per_task
    for name, count in zip(env.spec.tasks, counts, strict=True):
        if count < worlds:
            where = "" if counts == env.config.envs_per_task else " on rank 0"
            raise UserError(f"history.worlds={worlds} is too many: task '{name}' has {count} worlds{where}")
    world = torch.arange(worlds).repeat(len(counts))
    task = torch.arange(len(counts)).repeat_interleave(worlds)
    starts = torch.tensor(counts).cumsum(0) - torch.tensor(counts)
    writer = HistoryWriter(env, config, task.numpy(), world.numpy())
    frames = frames_per_iteration, env.total_spec.num_envs
    return Recorder(env, (starts[task] + world).to(env.device), frames, writer)


def announce(recorder: Recorder, config: TrainConfig, steps: int) -> None:
    """Say on one line what is kept and how large it gets.

    Args:
        recorder: The recorder.
        config: Settings of the run.
        steps: Steps of every world until the run ends.
    """
    worlds, every = config.history.worlds, config.history.every
    which = "all episodes" if every == 1 else f"one in {every} episodes"
    size = recorder.writer.bytes_of(steps) / 1e6
    shown, tasks = f"{size:,.0f}" if size >= 10 else f"{size:.2g}", len(recorder.spec.tasks)
    note(
        f"history: {which} of {worlds} worlds of each of {tasks} tasks, about {shown} MB before compression, "
        f"in {recorder.writer.files.folder}"
    )
