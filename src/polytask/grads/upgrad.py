"""Average the task gradients after projecting each to where no task is harmed: UPGrad.

Quinton and Rey, Jacobian Descent for Multi-Objective Optimization, 2024. Gradient g_i is replaced by the nearest vector
that conflicts with no task, J^T v with v minimising |v^T J|^2 subject to v >= e_i; the K results are averaged. Unlike
PCGrad's, the outcome conflicts with no task for any K and does not depend on an order.

Differences from the paper: the K quadratic programmes are solved together by a fixed number of accelerated
projected-gradient steps in x = v * norms, warm-started, instead of one after another by an active-set solver.

Scale: anchored, exactly the mean gradient when no two tasks conflict.
Cost: per-task gradients and `iterations` rounds of a few (K, K) operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required
from polytask.grads.solvers import accelerate, spectral_bound, unit_gram


@dataclass
class UPGradConfig(GradConfig):
    """Settings of UPGrad."""

    iterations: int = 50  # projected-gradient steps an update


class UPGrad(GradMethod):
    """Mean of the gradients' projections onto the cone of directions that harm no task."""

    def __init__(self, cfg: UPGradConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Start from unprojected gradients."""
        self.cfg = cfg
        self.coefficients = torch.eye(num_tasks, dtype=torch.float64, device=device)  # row i: v of task i

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Project all task gradients and average their coefficients."""
        cosine, norms = unit_gram(required(gram))
        norms = norms / norms.square().mean().sqrt()
        bound, least = spectral_bound(cosine), norms.diag()

        def step(point: Tensor) -> Tensor:
            return torch.maximum(point - point @ cosine / bound, least)

        start = torch.maximum(self.coefficients * norms, least)
        self.coefficients.copy_(accelerate(step, start, self.cfg.iterations) / norms)
        return self.coefficients.mean(0).to(losses.dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the last coefficients."""
        return {"coefficients": self.coefficients}
