"""The data classes and protocols that all layers of polytask share.

Dimension letters used everywhere: N worlds, T steps, B batch, K tasks, O observation, A action. Tensors have the world
axis first, are float32 and are on one device. Quaternions are wxyz. Units are SI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

# Sums over the ended episodes that every environment keeps per task. A domain may add others.
EPISODE_METRICS = ("episodes", "success", "success_at_end", "return", "length", "diverged")


@dataclass(frozen=True)
class EnvSpec:
    """What an algorithm must know about an environment to build its networks."""

    obs_dim: int
    action_dim: int
    tasks: tuple[str, ...]
    envs_per_task: tuple[int, ...]
    episode_length: int
    obs_scale: tuple[float, ...] = ()  # factor of each entry that makes it of order one; empty if there are none
    actor_dim: int | None = None  # number of leading entries that a policy may see, if a critic sees more
    places: tuple[int, ...] = ()  # for the hand and each object, the entry at which its position begins (three numbers)

    @property
    def num_tasks(self) -> int:
        """Number of tasks K."""
        return len(self.tasks)

    @property
    def num_envs(self) -> int:
        """Number of worlds N."""
        return sum(self.envs_per_task)


@dataclass
class Step:
    """The result of one control step of N worlds.

    With `polytask.make(copy=False)`, and in the learners of polytask, the tensors are buffers of the environment. The
    next step overwrites them, so copy what is needed after it. By default, `make` returns copies.

    Attributes:
        obs: Observation to act on next. Where the episode ended, the first one of a new episode. (N, O)
        next_obs: Observation after the action, before any reset. Bootstrap from this one. (N, O)
        reward: (N,)
        terminated: The episode reached a true end, whose value is zero. (N,) bool
        truncated: The episode was cut off (time limit, diverged simulation). Bootstrap from `next_obs`. (N,) bool
        success: The task's success test was true after this step. (N,) bool
    """

    obs: Tensor
    next_obs: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    success: Tensor


class VecEnv(Protocol):
    """N worlds of K tasks, sorted by task, with automatic resets."""

    spec: EnvSpec
    device: torch.device
    task: Tensor  # (N,) int64, non-decreasing

    @property
    def obs(self) -> Tensor:
        """Current observation, to act on. (N, O)"""
        ...

    def reset(self) -> Tensor:
        """Start a new episode in every world and return the observations."""
        ...

    def step(self, action: Tensor) -> Step:
        """Apply one action (N, A), clipped to [-1, 1], and reset the worlds whose episode ended."""
        ...


class Algo(Protocol):
    """A learning algorithm: `iterate` collects experience and learns. The training loop needs the other methods."""

    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A)."""
        ...

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Collect experience, learn from it, and return scalar metrics as tensors (without host synchronization)."""
        ...

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one call of `iterate` takes, summed over all worlds."""
        ...

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and running statistics that can initialize a new run, by name."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return everything that is needed to continue, as tensors and plain values only."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...


@runtime_checkable
class Imitates(Protocol):
    """An algorithm that can learn from demonstrations besides its own experience."""

    def imitate(self, task: Tensor, obs: Tensor, action: Tensor) -> None:
        """Before the first iteration, remember steps that led others to success, to imitate them in tasks that fail.

        Args:
            task: Task of each step. (M,)
            obs: Raw observation before the action. (M, O)
            action: Action in [-1, 1]. (M, A)
        """
        ...
