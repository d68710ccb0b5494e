"""A reward scale per task: scaled returns have a standard deviation of about one and stay bounded.

After Nauman et al., "Bigger, Regularized, Categorical" (BRC), 2025: rewards are divided by

    max(std(G), max |G| / (1 - gamma^L) / bound),     G_t = r_t + gamma (1 - done_{t-1}) G_{t-1},

with one running return G for every world and statistics over all worlds of a task. Rewards are not shifted, because a
shift would change which policy is best when episodes differ in length.

Difference from the paper: the factor 1 / (1 - gamma^L), with L the episode length. A value that is bootstrapped through
the time limit reaches r / (1 - gamma). The running return of an episode reaches only (1 - gamma^L) of that.
With gamma = 1 it has no bound, so the algorithms that scale rewards do not take it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polytask.algos.shared.normalize import TaskNormalizer
from polytask.nets.task_axes import TaskAxis
from polytask.types import EnvSpec


class RewardNormalizer(nn.Module):
    """One reward scale per task, computed from all rewards passed to `update`."""

    def __init__(self, spec: EnvSpec, task: Tensor, gamma: float, bound: float) -> None:
        """Start every return at zero.

        Args:
            spec: Gives the number of worlds and the episode length.
            task: Task of each world. (N,)
            gamma: Discount per step.
            bound: Largest magnitude of a value after scaling.
        """
        super().__init__()
        self.gamma = gamma
        self.floor = 1.0 / (bound * (1.0 - gamma**spec.episode_length))
        self.spread = TaskNormalizer(spec.num_tasks, 1).to(task.device)
        self.task_axes = {"largest": TaskAxis(0, is_identity=True)}
        self.per_world = ("returns",)  # state of the current episodes, which a new run must not take over
        self.task: Tensor
        self.returns: Tensor
        self.largest: Tensor
        self.register_buffer("task", task, persistent=False)
        self.register_buffer("returns", torch.zeros(spec.num_envs, device=task.device))  # (N,) of the current episodes
        self.register_buffer("largest", torch.zeros(spec.num_tasks, device=task.device))  # (K,) of |G|

    @torch.no_grad()
    def update(self, reward: Tensor, done: Tensor) -> None:
        """Add one step of all worlds: rewards (N,) and whether the step ended the episode (N,)."""
        self.returns.mul_(self.gamma).add_(reward)
        self.spread.update(self.returns.unsqueeze(-1), self.task)
        self.largest.scatter_reduce_(0, self.task, self.returns.abs(), "amax")
        self.returns.mul_(~done)

    def scale(self) -> Tensor:
        """Return the divisor of each task's rewards (K,); it is 1 for a task without any reward yet."""
        deviation = self.spread.variance.squeeze(-1).sqrt().to(self.largest.dtype)
        divisor = torch.maximum(deviation, self.floor * self.largest)
        return torch.where(self.largest > 0, divisor, 1.0)
