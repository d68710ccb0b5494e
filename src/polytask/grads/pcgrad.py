"""Project each task's gradient off those it conflicts with: PCGrad.

Yu et al., Gradient Surgery for Multi-Task Learning, NeurIPS 2020. Task i walks through the other tasks j in random
order and, where g_i . g_j < 0 for its gradient so far, removes the component along the original g_j. In coefficients of
the original gradients this needs only the Gram matrix, and all K walks advance together.

Differences from the paper: the projected gradients are averaged, not summed.

Scale: anchored, exactly the mean gradient when no two tasks conflict.
Cost: per-task gradients and K rounds of a few (K, K) operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required


@dataclass
class PCGradConfig(GradConfig):
    """Settings of PCGrad: none of its own."""


class PCGrad(GradMethod):
    """Mean of projected gradients, in an order drawn anew for every update."""

    def __init__(self, cfg: PCGradConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Keep the generator that orders are drawn from."""
        self.generator = generator

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Draw every task's order and return the weights of the averaged projections."""
        gram = required(gram)
        order = torch.rand(gram.shape, generator=self.generator, device=gram.device).argsort(1)
        return project_conflicts(gram, order).mean(0).to(losses.dtype)


def project_conflicts(gram: Tensor, order: Tensor) -> Tensor:
    """Return the coefficients (K, K) of every task's projected gradient in terms of the original gradients.

    Args:
        gram: Dot products of the task gradients. (K, K)
        order: Row i is the order, a permutation of the tasks, in which task i meets the others. (K, K) int64
    """
    coefficients = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    products = gram.clone()  # row i: dot products of task i's gradient so far with the original gradients
    own = torch.arange(len(gram), device=gram.device)
    square_norms = gram.diagonal().clamp_min(torch.finfo(gram.dtype).tiny)
    for other in order.T:
        overlap = products.gather(1, other[:, None]).squeeze(1).clamp_max(0) / square_norms[other]
        removed = overlap.masked_fill(other == own, 0)[:, None]
        coefficients.scatter_add_(1, other[:, None], -removed)
        products -= removed * gram[other]
    return coefficients
