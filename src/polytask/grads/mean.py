"""Weigh all tasks equally: the baseline, whose scale the other methods keep.

Scale: convex, w_k = 1 / K. Cost: one backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod


@dataclass
class MeanConfig(GradConfig):
    """Settings of the mean; it adds none."""

    name: str = "mean"


class Mean(GradMethod):
    """Equal weights."""

    needs_gram = False
    has_own_weights = False

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return 1 / K for every task."""
        return torch.full_like(losses, 1 / len(losses))
