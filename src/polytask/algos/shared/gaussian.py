"""A diagonal Gaussian policy around any network, and the closed forms a learner needs of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from polytask.nets.task_axes import TaskAxis
from polytask.nets.task_code import one_hot


class StdRange(NamedTuple):
    """Where a standard deviation starts and the bounds it is kept within."""

    initial: float
    lowest: float
    highest: float


class GaussianPolicy(nn.Module):
    """Normal actions: a network gives the mean, a parameter the standard deviation of each task or of all.

    A mean outside [-1, 1] is possible, and the environment clips; densities are those of the unclipped action.
    """

    def __init__(self, net: nn.Module, num_tasks: int, action_dim: int, task_std: bool, std: StdRange) -> None:
        """Wrap a network (B, O), (B,) -> (B, A).

        Args:
            net: Network that gives the mean.
            num_tasks: Number of tasks K.
            action_dim: Number of action entries A.
            task_std: Learn one standard deviation per task, so that a solved task may settle while another explores.
            std: Start and bounds of the standard deviation.
        """
        super().__init__()
        self.net = net
        self.num_tasks = num_tasks
        self.bounds = (math.log(std.lowest), math.log(std.highest))
        self.log_std = nn.Parameter(torch.full((num_tasks if task_std else 1, action_dim), math.log(std.initial)))
        self.task_axes = {"log_std": TaskAxis(0)} if task_std else {}

    def forward(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the logarithm of the standard deviation, (B, A) each and float32."""
        mean = self.net(obs, task).float()  # (B, A)
        # A one-hot product: the backward pass of an index would add thousands of rows to a few one by one.
        with torch.autocast(mean.device.type, enabled=False):
            log_std = one_hot(task, self.num_tasks) @ self.log_std.expand(self.num_tasks, -1)  # (B, A)
        return mean, log_std

    @torch.no_grad()
    def after_step(self) -> None:
        """Put the standard deviation back into its bounds; call it after each optimizer step."""
        # Not a clamp in the forward pass: beyond the bound that one has no gradient to come back by.
        self.log_std.clamp_(*self.bounds)


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-density (...) of actions (..., A) under independent normals."""
    z = (action - mean) * torch.exp(-log_std)
    return -(0.5 * z.square() + log_std + 0.5 * math.log(2 * math.pi)).sum(dim=-1)


def entropy(log_std: Tensor) -> Tensor:
    """Return the differential entropy (...) of independent normals (..., A)."""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1)
