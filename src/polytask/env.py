"""MultiTaskEnv: N worlds of K tasks behind one `step`.

Worlds are sorted by task, each task owning a contiguous slice. Episodes end by the time limit alone (`truncated`;
`terminated` is never set), or when a simulation diverges, and restart by themselves. On a GPU a control step replays
captured graphs, one stream per group of tasks, without waiting for the device; on the CPU a fixed list of groups runs
on each thread.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from polytask.graph import Graphed
from polytask.group import ACTIONS, OBS, Buffers, Group, GroupConfig
from polytask.robots import Robot
from polytask.sim import SimConfig
from polytask.tasks.sampling import candidates
from polytask.tasks.task import Task
from polytask.types import EnvSpec, Step

METRICS = ("episodes", "success", "success_at_end", "return", "length", "diverged")


@dataclass(frozen=True)
class EnvConfig:
    """What an environment consists of; `polytask.make` fills it from names."""

    tasks: tuple[Task, ...]
    envs_per_task: tuple[int, ...]
    robot: Robot
    sim: str
    device: torch.device
    sim_config: SimConfig = field(default_factory=SimConfig)
    episode_length: int = 150
    reward: str = "dense"
    goals: str = "random"
    stagger: bool = True
    seed: int = 0
    threads: int = 1


class MultiTaskEnv:
    """N worlds of K tasks that reset themselves; fulfils `types.VecEnv`."""

    def __init__(self, config: EnvConfig) -> None:
        """Build every scene and start the first episodes."""
        self.config = config
        self.device = config.device
        counts = config.envs_per_task
        names = tuple(task.name for task in config.tasks)
        self.spec = EnvSpec(OBS, ACTIONS, names, counts, config.episode_length)
        self.task = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(self.device)
        self._one_hot = torch.nn.functional.one_hot(self.task, len(counts)).float()  # (N, K)
        self._generator = torch.Generator(self.device).manual_seed(config.seed)
        self._buffers = self._make_buffers()
        self.groups = self._make_groups()
        self._runner = _GpuRunner(self.groups, self.device) if self.device.type == "cuda" else _CpuRunner(self)
        self._before, self._after = Graphed(self._start_step, self.device), Graphed(self._end_step, self.device)
        self.reset()

    @property
    def obs(self) -> Tensor:
        """Observation to act on now. (N, O)"""
        return self._buffers.obs

    def seed(self, seed: int) -> None:
        """Start the environment's random numbers anew; `reset` makes it felt."""
        self._generator.manual_seed(seed)

    def reset(self) -> Tensor:
        """Start a new episode in every world and return the observations.

        With `stagger`, worlds start at random step counts, so that episodes do not end in lock-step. Such shortened
        first episodes are not counted in the metrics.
        """
        b = self._buffers
        b.uniform.uniform_(generator=self._generator)
        for group in self.groups:
            group.reset(torch.ones_like(group.buffers.truncated))
        for tensor in (self._ever, self._return, self._metrics):
            tensor.zero_()
        if self.config.stagger:
            length = self.config.episode_length
            self._length.random_(0, length, generator=self._generator)
        else:
            self._length.zero_()
        self._counts.copy_(self._length == 0)
        return b.obs

    def step(self, action: Tensor) -> Step:
        """Apply one action (N, A), clipped to [-1, 1], and reset the worlds whose episode ended."""
        b = self._buffers
        b.action.copy_(action.detach())
        b.uniform.uniform_(generator=self._generator)
        self._before()
        self._runner.run()
        self._after()
        return Step(b.obs, b.next_obs, b.reward, self._terminated, b.truncated, b.success)

    def pop_metrics(self) -> dict[str, Tensor]:
        """Return per-task sums (K,) over the episodes that ended since the last call, and start anew."""
        sums = self._metrics.clone()
        self._metrics.zero_()
        return dict(zip(METRICS, sums.unbind(-1), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next step depends on."""
        b = self._buffers
        return {
            "groups": [group.state_dict() for group in self.groups],
            "obs": b.obs.clone(),
            "episode": {name: getattr(self, f"_{name}").clone() for name in ("length", "ever", "return", "counts")},
            "metrics": self._metrics.clone(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for group, part in zip(self.groups, state["groups"], strict=True):
            group.load_state_dict(part)
        self._buffers.obs.copy_(state["obs"])
        for name, value in state["episode"].items():
            getattr(self, f"_{name}").copy_(value)
        self._metrics.copy_(state["metrics"])
        self._generator.set_state(state["generator"].cpu())

    def close(self) -> None:
        """Stop the threads."""
        self._runner.close()

    def _make_buffers(self) -> Buffers:
        n, device = self.spec.num_envs, self.device
        draws = max(candidates(task) for task in self.config.tasks)
        width = max(len(task.low) for task in self.config.tasks)

        def flags() -> Tensor:
            return torch.zeros(n, dtype=torch.bool, device=device)

        self._terminated = flags()
        self._ever, self._counts = flags(), flags()
        self._length = torch.zeros(n, dtype=torch.int64, device=device)
        self._return = torch.zeros(n, device=device)
        self._metrics = torch.zeros(self.spec.num_tasks, len(METRICS), device=device)
        return Buffers(
            action=torch.zeros(n, ACTIONS, device=device),
            obs=torch.zeros(n, OBS, device=device),
            next_obs=torch.zeros(n, OBS, device=device),
            reward=torch.zeros(n, device=device),
            success=flags(),
            timeout=flags(),
            truncated=flags(),
            diverged=flags(),
            uniform=torch.zeros(n, draws, width, device=device),
        )

    def _make_groups(self) -> list[Group]:
        """Let consecutive tasks of one scene share a group."""
        c = self.config
        group_config = GroupConfig(c.robot, c.sim, c.sim_config, c.device, c.reward, c.goals)
        members: list[list[tuple[Task, int]]] = []
        for task, count in zip(c.tasks, c.envs_per_task, strict=True):
            if members and members[-1][0][0].scene == task.scene:
                members[-1].append((task, count))
            else:
                members.append([(task, count)])
        groups, start = [], 0
        for tasks in members:
            stop = start + sum(count for _, count in tasks)
            groups.append(Group(tasks, self._buffers.rows(slice(start, stop)), group_config))
            start = stop
        return groups

    def _start_step(self) -> None:
        b = self._buffers
        b.action.clamp_(-1.0, 1.0)
        self._length += 1
        torch.ge(self._length, self.config.episode_length, out=b.timeout)

    def _end_step(self) -> None:
        """Account for rewards and ended episodes."""
        b = self._buffers
        self._return += b.reward
        self._ever |= b.success
        ended, counted = b.truncated, b.truncated & self._counts
        columns = (torch.ones_like(b.reward), self._ever, b.success, self._return, self._length)
        rows = torch.stack([column.float() * counted for column in columns] + [b.diverged.float()], -1)  # (N, 6)
        self._metrics += self._one_hot.T @ rows
        self._return.masked_fill_(ended, 0.0)
        self._length.masked_fill_(ended, 0)
        self._ever &= ~ended
        self._counts |= ended


class _CpuRunner:
    """Runs each group's step on a thread of a fixed assignment."""

    def __init__(self, env: MultiTaskEnv) -> None:
        threads = max(1, min(env.config.threads, len(env.groups)))
        self._lists: list[list[Group]] = [[] for _ in range(threads)]
        load = [0] * threads
        for group in sorted(env.groups, key=lambda g: -g.batch.num_worlds):
            lightest = load.index(min(load))
            self._lists[lightest].append(group)
            load[lightest] += group.batch.num_worlds
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None

    def run(self) -> None:
        """Step all groups."""
        futures = [self._pool.submit(self._step, groups) for groups in self._lists[1:]] if self._pool else []
        self._step(self._lists[0])
        for future in futures:
            future.result()

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()

    @staticmethod
    @torch.inference_mode()  # set per thread; spares autograd's bookkeeping in many small operations
    def _step(groups: list[Group]) -> None:
        for group in groups:
            group.act()
            group.simulate()
            group.conclude()


class _GpuRunner:
    """Replays each group's captured graphs on a stream of its own."""

    def __init__(self, groups: list[Group], device: torch.device) -> None:
        self._device = device
        self._parts = [
            (Graphed(g.act, device), g.simulate, Graphed(g.conclude, device), torch.cuda.Stream(device)) for g in groups
        ]

    def run(self) -> None:
        """Enqueue the step of all groups and make the current stream wait for them, without waiting itself."""
        main = torch.cuda.current_stream(self._device)
        for act, simulate, conclude, stream in self._parts:
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                act()
                simulate()
                conclude()
        for *_, stream in self._parts:
            main.wait_stream(stream)

    def close(self) -> None:
        """Nothing to stop."""
