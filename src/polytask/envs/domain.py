"""The interface between an environment and its domain: sizes, metrics and groups of worlds.

There are two domains, manipulation and parkour. `MultiTaskEnv` keeps the step counters, the buffers and the metrics for
both. The groups of a domain apply actions, compute observations and rewards, and start episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from polytask.envs.options import EnvOptions
from polytask.parallel.worlds import WorldShare
from polytask.sim import WarpSettings
from polytask.sim.base import Batch


@dataclass
class Buffers:
    """The tensors of an environment, or the rows of them that belong to one group."""

    action: Tensor  # (N, A)
    obs: Tensor  # (N, O)
    next_obs: Tensor  # (N, O)
    reward: Tensor  # (N,)
    success: Tensor  # (N,) bool
    score: Tensor  # (N,) share of the task that is done, 0 to 1; the metrics report its maximum over an episode
    timeout: Tensor  # (N,) bool: the episode has reached its time limit
    terminated: Tensor  # (N,) bool
    truncated: Tensor  # (N,) bool
    diverged: Tensor  # (N,) bool
    length: Tensor  # (N,) int64 steps of the episode so far, including this one
    counts: Tensor  # (N,) bool: the episode began at its first step, not in the middle as staggered ones do
    uniform: Tensor  # (N, candidates, R) random numbers, new in every step
    extras: Tensor  # (N, E) domain-specific metrics of the episode so far

    @classmethod
    def allocate(cls, num_envs: int, config: EnvConfig) -> Buffers:
        """Allocate zeroed tensors for a number of worlds."""
        domain, sizes, device = config.domain, config.sizes, config.device
        flags = [torch.zeros(num_envs, dtype=torch.bool, device=device) for _ in range(6)]

        def floats(*shape: int) -> Tensor:
            return torch.zeros(num_envs, *shape, device=device)

        return cls(
            action=floats(domain.action_dim),
            obs=floats(sizes.obs_dim),
            next_obs=floats(sizes.obs_dim),
            reward=floats(),
            success=flags[0],
            score=floats(),
            timeout=flags[1],
            terminated=flags[2],
            truncated=flags[3],
            diverged=flags[4],
            length=torch.zeros(num_envs, dtype=torch.int64, device=device),
            counts=flags[5],
            uniform=floats(*sizes.draws),
            extras=floats(len(domain.metrics)),
        )

    def rows(self, worlds: slice) -> Buffers:
        """Return views of the rows of some worlds."""
        return Buffers(**{name: tensor[worlds] for name, tensor in vars(self).items()})

    def hide_diverged(self) -> None:
        """Give diverged worlds their last valid observation and zero reward: no NaN may reach the learner."""
        self.next_obs.copy_(torch.where(self.diverged[:, None], self.obs, self.next_obs))
        self.reward.masked_fill_(self.diverged, 0.0)


class Mark(NamedTuple):
    """A place of a task that pictures show as a ball, such as a waypoint."""

    position: tuple[float, float, float]
    is_next: bool  # the one to go to now


class TaskSlice(Protocol):
    """A task and its rows in a group."""

    @property
    def task(self) -> Any:
        """The record of the task; it has a `name`."""
        ...

    @property
    def worlds(self) -> slice:
        """The rows of the task."""
        ...

    @property
    def model(self) -> mujoco.MjModel:
        """The scene of the task, with everything that can be seen."""
        ...

    @property
    def mocaps(self) -> NDArray[np.int64]:
        """Index in the batch of every mocap body of the model."""
        ...


class WorldGroup(Protocol):
    """Worlds that share one batch, and therefore one stream or thread.

    A control step has three parts: `act`, `simulate` and `conclude`. `act` and `conclude` work on tensors whose address
    never changes, so that a graph can capture them.
    """

    batch: Batch
    buffers: Buffers

    @property
    def tasks(self) -> Sequence[TaskSlice]:
        """The tasks and their rows."""
        ...

    def act(self) -> None:
        """Turn the actions in the buffers into commands."""
        ...

    def simulate(self) -> None:
        """Advance the physics by one control step."""
        ...

    def conclude(self) -> None:
        """Compute observations, rewards and success, set where episodes end, and start new ones there.

        The ends are `terminated`, `truncated` and `diverged` of the buffers.
        """
        ...

    def reset(self, mask: Tensor) -> None:
        """Start new episodes where `mask` (N,) is true and write their first observations."""
        ...

    def world_metrics(self) -> dict[str, Tensor]:
        """Return numbers (N,) that describe the current worlds; the environment sums them per task."""
        ...

    def marks(self, row: int) -> list[Mark]:
        """Return the places that a picture of a world shows although its scene does not contain them."""
        ...

    def note(self, row: int) -> str:
        """Return what the caption of a world's episode says beside the task, such as its level; empty if nothing."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


@dataclass(frozen=True)
class EnvConfig:
    """The options of an environment with every name resolved; `envs.make` builds it.

    Attributes:
        options: The user's options, completed with the defaults of the domain.
        domain: Manipulation or parkour.
        tasks: Task records of the domain.
        envs_per_task: Number of worlds of each task, over all ranks.
        share: The worlds that this process simulates.
        robot: Record of the robot.
        sim: Name of the physics backend, "cpu" or "warp".
        sim_config: Settings of the Warp backend.
        device: Device of the tensors.
    """

    options: EnvOptions
    domain: Domain
    tasks: tuple[Any, ...]
    envs_per_task: tuple[int, ...]
    share: WorldShare
    robot: Any
    sim: str
    sim_config: WarpSettings
    device: torch.device

    @property
    def sizes(self) -> WorldSizes:
        """Sizes of observations and random numbers."""
        return self.domain.sizes(self)

    @property
    def episode_length(self) -> int:
        """Control steps per episode."""
        assert self.options.episode_length is not None
        return self.options.episode_length


@dataclass(frozen=True)
class WorldSizes:
    """What depends on the options of an environment.

    Attributes:
        obs_dim: Numbers in an observation.
        draws: Shape (candidates, R) of the random numbers that a world may need in a step.
        obs_scale: Factors that make the entries of an observation of order one, for `normalize=fixed`, or none.
        actor_dim: Number of leading entries that a policy may see; None means all.
        places: For the hand and each object, the entry at which its position begins.
    """

    obs_dim: int
    draws: tuple[int, int]
    obs_scale: tuple[float, ...] = ()
    actor_dim: int | None = None
    places: tuple[int, ...] = ()


@dataclass(frozen=True)
class Domain:
    """One kind of task.

    Attributes:
        name: Name in messages.
        action_dim: Numbers in an action.
        control_rate: Control steps per second of simulated time.
        robot: Class of its robots.
        defaults: Defaults of domain-specific options; a domain-specific option that is missing here is rejected.
        metrics: Names of the additional episode metrics, the columns of `Buffers.extras`.
        sizes: Return the sizes of observations and random numbers.
        make_groups: Build the groups on rows of the buffers; one-time random draws use the generator.
        share_batches: Return which tasks share a batch, with their numbers of worlds. A batch needs its own kernels.
    """

    name: str
    action_dim: int
    control_rate: int
    robot: type[Any]
    defaults: Mapping[str, Any]
    metrics: tuple[str, ...]
    sizes: Callable[[EnvConfig], WorldSizes]
    make_groups: Callable[[EnvConfig, Buffers, torch.Generator], Sequence[WorldGroup]]
    share_batches: Callable[[EnvConfig], Sequence[Sequence[tuple[Any, int]]]]
