"""Weigh each loss by a learned noise level: uncertainty weighting.

Kendall et al., Multi-Task Learning Using Uncertainty to Weigh Losses, CVPR 2018. Each task has a log-variance s_k. The
total loss is sum_k (exp(-s_k) l_k + s_k) / 2, so exp(s_k) follows the task's loss and large losses count less.

Differences from the paper: The weights are divided by their sum, so that they stay at the scale of the mean. s has
separate gradient steps, with dtotal/ds_k = (1 - exp(-s_k) l_k) / 2 clipped to [-1, 1], and stays in [-limit, limit].
Negative losses move s_k to -limit, so use the method for regression losses such as the critic's.

Scale: convex. Cost: one backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod
from polytask.settings import setting


@dataclass
class UncertaintyConfig(GradConfig):
    """Settings of uncertainty weighting."""

    name: str = "uncertainty"
    lr: float = setting(1e-2, "step size of the log-variances", at_least=0.0)
    limit: float = setting(6.0, "largest magnitude of a log-variance", above=0.0)


class Uncertainty(GradMethod):
    """Loss weights proportional to learned precisions."""

    cfg: UncertaintyConfig
    needs_gram = False

    def __init__(
        self, cfg: UncertaintyConfig, num_tasks: int, device: torch.device, generator: torch.Generator
    ) -> None:
        """Start from unit variances."""
        super().__init__(cfg, num_tasks, device, generator)
        self.log_variance = torch.zeros(num_tasks, device=device)

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the normalized precisions, then move the log-variances one step."""
        weights = (-self.log_variance).softmax(0)
        gradient = 0.5 * (1 - (-self.log_variance).exp() * losses)
        self.log_variance.sub_(self.cfg.lr * gradient.clamp(-1, 1)).clamp_(-self.cfg.limit, self.cfg.limit)
        return weights

    def state_dict(self) -> dict[str, Tensor]:
        """Return the log-variances."""
        return {"log_variance": self.log_variance}
