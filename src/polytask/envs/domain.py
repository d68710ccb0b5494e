"""What an environment needs of a domain: sizes, metrics of its own, and groups of worlds that know how to step.

Manipulation and parkour are two domains. `MultiTaskEnv` keeps the clock, the buffers and the metrics of either; what an
action does, what is seen, what it earns and how an episode begins is up to the domain's groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import mujoco
import torch
from torch import Tensor

from polytask.envs.options import EnvOptions
from polytask.sim import SimConfig
from polytask.sim.base import Batch


@dataclass
class Buffers:
    """The environment's tensors, or a group's rows of them."""

    action: Tensor  # (N, A)
    obs: Tensor  # (N, O)
    next_obs: Tensor  # (N, O)
    reward: Tensor  # (N,)
    success: Tensor  # (N,) bool
    score: Tensor  # (N,) how much of the task is done, 0 to 1; its highest value in an episode is what is reported
    timeout: Tensor  # (N,) bool: the episode's last step
    terminated: Tensor  # (N,) bool
    truncated: Tensor  # (N,) bool
    diverged: Tensor  # (N,) bool
    length: Tensor  # (N,) int64 steps of the episode so far, this one included
    uniform: Tensor  # (N, candidates, R) random numbers, new in every step
    extras: Tensor  # (N, E) the domain's own metrics of the episode so far

    @classmethod
    def allocate(cls, num_envs: int, domain: Domain, tasks: Sequence[Any], device: torch.device) -> Buffers:
        """Reserve zeroed tensors for the worlds of some tasks of a domain."""
        flags = [torch.zeros(num_envs, dtype=torch.bool, device=device) for _ in range(5)]

        def floats(*shape: int) -> Tensor:
            return torch.zeros(num_envs, *shape, device=device)

        return cls(
            action=floats(domain.action_dim),
            obs=floats(domain.obs_dim),
            next_obs=floats(domain.obs_dim),
            reward=floats(),
            success=flags[0],
            score=floats(),
            timeout=flags[1],
            terminated=flags[2],
            truncated=flags[3],
            diverged=flags[4],
            length=torch.zeros(num_envs, dtype=torch.int64, device=device),
            uniform=floats(*domain.draws(tasks)),
            extras=floats(len(domain.metrics)),
        )

    def rows(self, worlds: slice) -> Buffers:
        """Return views of some worlds' rows."""
        return Buffers(**{name: tensor[worlds] for name, tensor in vars(self).items()})


class TaskSlice(Protocol):
    """A task and the rows of a group that play it."""

    @property
    def task(self) -> Any:
        """Its record, with a `name`."""
        ...

    @property
    def worlds(self) -> slice:
        """Its rows."""
        ...


class WorldGroup(Protocol):
    """Worlds that share a scene, and so one batch and one stream or thread.

    A control step has three parts; `act` and `conclude` work on tensors that keep their address, so that they can be
    captured into a graph.
    """

    batch: Batch
    buffers: Buffers

    @property
    def model(self) -> mujoco.MjModel:
        """The compiled scene."""
        ...

    @property
    def tasks(self) -> Sequence[TaskSlice]:
        """Who plays which rows."""
        ...

    def act(self) -> None:
        """Turn the actions in the buffers into commands."""
        ...

    def simulate(self) -> None:
        """Advance the physics by one control step."""
        ...

    def conclude(self) -> None:
        """Observe, reward, and start new episodes where one ended."""
        ...

    def reset(self, mask: Tensor) -> None:
        """Start new episodes where `mask` (N,) holds and show their first observation."""
        ...

    def world_metrics(self) -> dict[str, Tensor]:
        """Return numbers (N,) that describe where the worlds stand; the environment adds them up by task."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next step depends on."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


@dataclass(frozen=True)
class EnvConfig:
    """An environment's options with every name looked up; `envs.make` builds it.

    Attributes:
        options: As the user gave them, with the defaults of the domain filled in.
        domain: Manipulation or parkour.
        tasks: Records of the domain.
        envs_per_task: Number of worlds of each task.
        robot: Record of the robot.
        sim: Name of the physics backend, "cpu" or "warp".
        sim_config: Settings of the Warp backend.
        device: Where tensors live.
    """

    options: EnvOptions
    domain: Domain
    tasks: tuple[Any, ...]
    envs_per_task: tuple[int, ...]
    robot: Any
    sim: str
    sim_config: SimConfig
    device: torch.device

    @property
    def episode_length(self) -> int:
        """Control steps per episode."""
        assert self.options.episode_length is not None
        return self.options.episode_length


@dataclass(frozen=True)
class Domain:
    """One kind of task.

    Attributes:
        name: For messages.
        obs_dim: Numbers in an observation.
        action_dim: Numbers in an action.
        robot: Class of the robots that play it.
        defaults: Options that differ between domains, with their defaults; an option that is missing is refused.
        metrics: What it reports of an episode besides what every domain does: names of `Buffers.extras`.
        draws: Shape (candidates, R) of the random numbers that a world of some tasks may need in a step.
        make_groups: Build the worlds on rows of the buffers; what is drawn once comes from the generator.
    """

    name: str
    obs_dim: int
    action_dim: int
    robot: type[Any]
    defaults: Mapping[str, Any]
    metrics: tuple[str, ...]
    draws: Callable[[Sequence[Any]], tuple[int, int]]
    make_groups: Callable[[EnvConfig, Buffers, torch.Generator], Sequence[WorldGroup]]
