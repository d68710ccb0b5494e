"""Remove from each task's gradient the components that oppose other tasks' gradients: PCGrad.

Yu et al., Gradient Surgery for Multi-Task Learning, NeurIPS 2020. Task i visits the other tasks j in random order.
Where its current gradient has g_i . g_j < 0, it removes the component along the original g_j. In coefficients of the
original gradients this needs only the Gram matrix, and all K tasks do their k-th visit together.

Differences from the paper: the projected gradients are averaged, not summed.

Scale: anchored, exactly the mean gradient when no two tasks conflict.
Cost: per-task gradients and 2 K small operations; memory for K^3 numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required


@dataclass
class PCGradConfig(GradConfig):
    """Settings of PCGrad; it adds none."""

    name: str = "pcgrad"


class PCGrad(GradMethod):
    """Mean of the projected gradients; every update draws a new order."""

    def __init__(self, cfg: PCGradConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Store the generator for the orders."""
        super().__init__(cfg, num_tasks, device, generator)
        self.generator = generator

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Draw an order for every task and return the weights of the averaged projections."""
        gram = required(gram)
        order = torch.rand(gram.shape, generator=self.generator, device=gram.device).argsort(1)
        return project_conflicts(gram, order).mean(0).to(losses.dtype)


def project_conflicts(gram: Tensor, order: Tensor) -> Tensor:
    """Return the coefficients (K, K) of every task's projected gradient in terms of the original gradients.

    Args:
        gram: Dot products of the task gradients. (K, K)
        order: Row i is the order, a permutation of the tasks, in which task i visits the others. (K, K) int64
    """
    square_norms = gram.diagonal().clamp_min(torch.finfo(gram.dtype).tiny)
    # All inputs are sorted in the order of the visits first, so that a visit needs only two operations.
    scaled = (gram / square_norms[:, None])[order[:, :, None], order[:, None]]  # (K, K, K): task, visited, later visits
    products = gram.gather(1, order)  # row i: dot products of task i's current gradient with those of later visits
    products.masked_fill_(order == torch.arange(len(gram), device=gram.device)[:, None], math.inf)  # none with itself
    for met in range(len(gram)):
        overlap = products[:, met : met + 1].clamp_max_(0)
        products[:, met + 1 :].addcmul_(overlap, scaled[:, met, met + 1 :], value=-1)
    removed = torch.zeros_like(gram).scatter_(1, order, products) / square_norms
    return torch.eye(len(gram), dtype=gram.dtype, device=gram.device) - removed
