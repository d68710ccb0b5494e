"""A diagonal Gaussian policy around any network, with closed forms of its log-density and entropy."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import rows


class StdRange(NamedTuple):
    """Initial value and bounds of a standard deviation."""

    initial: float
    lowest: float
    highest: float


class GaussianPolicy(nn.Module):
    """Normal actions: a network gives the mean, a parameter the standard deviation, per task or for all tasks.

    Means may lie outside [-1, 1]. The environment clips actions; densities are those of the unclipped action.
    """

    def __init__(
        self,
        net: nn.Module,
        num_tasks: int,
        action_dim: int,
        task_std: bool,
        std: StdRange,
        *,
        width: int | None = None,
    ) -> None:
        """Wrap a network (B, O), (B,) -> (B, A).

        Args:
            net: Network that gives the mean.
            num_tasks: Number of tasks K.
            action_dim: Number of action entries A.
            task_std: Learn one standard deviation per task, so that solved tasks explore less than unsolved ones.
            std: Initial value and bounds of the standard deviation.
            width: Number of leading entries of an observation that the network sees (default: all).
        """
        super().__init__()
        self.net, self.width = net, width
        self.num_tasks = num_tasks
        self.log_std = nn.Parameter(torch.full((num_tasks if task_std else 1, action_dim), math.log(std.initial)))
        # (K or 1, 1) Not saved: whoever changes the bounds does so again after a checkpoint is loaded.
        self.lowest: Tensor
        self.highest: Tensor
        for name, bound in (("lowest", std.lowest), ("highest", std.highest)):
            log_bound = torch.full((len(self.log_std), 1), math.log(bound))
            self.register_buffer(name, log_bound, persistent=False)
        self.task_axes = {"log_std": TaskAxis(0)} if task_std else {}

    def forward(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the logarithm of the standard deviation, (B, A) each and float32."""
        mean = self.net(obs[..., : self.width], task).float()  # (B, A)
        with torch.autocast(mean.device.type, enabled=False):
            log_std = rows(self.log_std.expand(self.num_tasks, -1), task)  # (B, A)
        return mean, log_std

    @torch.no_grad()
    def bound(self, lowest: Tensor, highest: Tensor) -> None:
        """Set each task's bounds (K,) of the logarithm of its standard deviation."""
        self.lowest.copy_(lowest.unsqueeze(-1))
        self.highest.copy_(highest.unsqueeze(-1))

    @torch.no_grad()
    def after_step(self) -> None:
        """Clamp the standard deviation to its bounds; must be called after each optimizer step."""
        # Not in the forward pass: outside its bounds a clamp has no gradient, so the value could never return.
        self.log_std.clamp_(self.lowest, self.highest)

    def after_load(self) -> None:
        """Clamp the standard deviation of another run: what acts within other bounds would change at the first step."""
        self.after_step()


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-density (...) of actions (..., A) under independent normals."""
    z = (action - mean) * torch.exp(-log_std)
    return -(0.5 * z.square() + log_std + 0.5 * math.log(2 * math.pi)).sum(dim=-1)


def kl_divergence(mean: Tensor, log_std: Tensor, other_mean: Tensor, other_log_std: Tensor) -> Tensor:
    """Return the divergence KL(first | other) (...) between independent normals (..., A)."""
    distance = (torch.exp(2.0 * log_std) + (mean - other_mean).square()) * torch.exp(-2.0 * other_log_std)
    return (other_log_std - log_std + 0.5 * (distance - 1.0)).sum(dim=-1)


def entropy(log_std: Tensor) -> Tensor:
    """Return the differential entropy (...) of independent normals (..., A)."""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1)
