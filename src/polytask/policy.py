"""A diagonal Gaussian policy around any network, and the closed forms a learner needs of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from polytask.normalize import one_hot


@dataclass
class StdConfig:
    """Settings of the policy's standard deviation."""

    initial: float = 1.0
    """Where it starts; actions lie in [-1, 1]."""
    per_task: bool = True
    """Learn one per task, so that a solved task can settle while another explores; else one for all."""
    lowest: float = 0.02
    """Kept from falling below this, where log-densities become too steep to learn from."""
    highest: float = 2.0
    """Kept from rising above this: without a bound the entropy bonus inflates the noise of a task that earns nothing."""


class GaussianPolicy(nn.Module):
    """Normal actions: a network gives the mean, a parameter the standard deviation of each task or of all.

    A mean outside [-1, 1] is possible, and the environment clips; densities are those of the unclipped action.
    """

    def __init__(self, net: nn.Module, num_tasks: int, action_dim: int, std: StdConfig) -> None:
        """Wrap a network (B, O), (B,) -> (B, A).

        Args:
            net: Network that gives the mean.
            num_tasks: Number of tasks K.
            action_dim: Number of action entries A.
            std: Settings of the standard deviation.
        """
        super().__init__()
        self.net = net
        self.num_tasks = num_tasks
        self.bounds = (math.log(std.lowest), math.log(std.highest))
        rows = num_tasks if std.per_task else 1
        device = next(net.parameters()).device
        self.log_std = nn.Parameter(torch.full((rows, action_dim), math.log(std.initial), device=device))

    def forward(self, obs: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and the logarithm of the standard deviation, (B, A) each and float32."""
        mean = self.net(obs, task).float()  # (B, A)
        # A one-hot product: the backward pass of an index would add thousands of rows to a few one by one.
        with torch.autocast(mean.device.type, enabled=False):
            log_std = one_hot(task, self.num_tasks) @ self.log_std.expand(self.num_tasks, -1)  # (B, A)
        return mean, log_std

    @torch.no_grad()
    def after_step(self) -> None:
        """Put the standard deviation back into its bounds; call it after each optimiser step."""
        # Not a clamp in the forward pass: beyond the bound that one has no gradient to come back by.
        self.log_std.clamp_(*self.bounds)


def log_prob(action: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log-density of actions (..., A) under independent normals. (...)"""
    z = (action - mean) * torch.exp(-log_std)
    return -(0.5 * z.square() + log_std + 0.5 * math.log(2 * math.pi)).sum(dim=-1)


def entropy(log_std: Tensor) -> Tensor:
    """Return the differential entropy of independent normals (..., A). (...)"""
    return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1)
