"""The records and protocols that the layers of polytask share.

Dimension letters used everywhere: N environments, T steps, B batch, K tasks, O observation, A action, R goal vector.
Tensors have the environment axis first, are float32 and live on one device; quaternions are wxyz; units are SI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

# The sums that every environment keeps, per task, over the episodes that ended; a domain may add its own.
EPISODE_METRICS = ("episodes", "success", "success_at_end", "return", "length", "diverged")


@dataclass(frozen=True)
class EnvSpec:
    """Everything a learner must know about an environment to build its networks."""

    obs_dim: int
    action_dim: int
    tasks: tuple[str, ...]
    envs_per_task: tuple[int, ...]
    episode_length: int

    @property
    def num_tasks(self) -> int:
        """Number of tasks K."""
        return len(self.tasks)

    @property
    def num_envs(self) -> int:
        """Number of environments N."""
        return sum(self.envs_per_task)


@dataclass
class Step:
    """What one control step of N environments returned.

    The tensors are the environment's own buffers and are overwritten by the next step: copy what must outlive it.

    Attributes:
        obs: Observation to act on next; that of a new episode where the old one ended. (N, O)
        next_obs: Observation the action led to, before any reset: the one to bootstrap from. (N, O)
        reward: (N,)
        terminated: The episode reached a true end, whose value is zero. (N,) bool
        truncated: The episode was cut off (time limit, diverged simulation); bootstrap from `next_obs`. (N,) bool
        success: The task's success test held after this step. (N,) bool
    """

    obs: Tensor
    next_obs: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    success: Tensor


class VecEnv(Protocol):
    """N environments of K tasks, sorted by task, that reset themselves."""

    spec: EnvSpec
    device: torch.device
    task: Tensor  # (N,) int64, non-decreasing

    @property
    def obs(self) -> Tensor:
        """Observation to act on now. (N, O)"""
        ...

    def reset(self) -> Tensor:
        """Start a new episode in every environment and return the observations."""
        ...

    def step(self, action: Tensor) -> Step:
        """Apply one action (N, A), clipped to [-1, 1], and reset the environments whose episode ended."""
        ...


class Algo(Protocol):
    """A learner: `iterate` is the algorithm, the rest is what the training loop needs around it."""

    def act(self, obs: Tensor, task: Tensor, *, explore: bool) -> Tensor:
        """Choose actions (N, A)."""
        ...

    def iterate(self, env: VecEnv) -> dict[str, Tensor]:
        """Collect experience, learn from it, and return scalar metrics as tensors (no host synchronization)."""
        ...

    @property
    def frames_per_iteration(self) -> int:
        """Environment steps that one call of `iterate` consumes, over all environments."""
        ...

    def networks(self) -> dict[str, nn.Module]:
        """Return the networks and running statistics that a new run can start with, by name."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on: tensors and plain values only."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        ...
