"""Average the task gradients after projecting each onto the directions that harm no task: UPGrad.

Quinton and Rey, Jacobian Descent for Multi-Objective Optimization, 2024. Gradient g_i is replaced by the nearest vector
that conflicts with no task: J^T v, where v minimizes |v^T J|^2 subject to v >= e_i. The K results are averaged. Unlike
PCGrad's result, this one conflicts with no task for any K and does not depend on an order.

Differences from the paper: The K quadratic programmes are solved together, in x = v * norms, by a fixed number of
over-relaxed ADMM steps. The paper solves one after another with an active-set solver. All programmes share one inverse,
(C + RHO I)^(-1), where C is the cosine matrix.

Scale: anchored, exactly the mean gradient when no two tasks conflict.
Cost: per-task gradients, one (K, K) inverse and `iterations` products of (K, K) matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required
from polytask.grads.solvers import add_ridge, unit_gram
from polytask.settings import setting

RHO = 0.1  # ADMM's penalty; among 0.01, 0.03, 0.1 and 0.3 it has the best worst case over 7 kinds of random Jacobians
RELAXATION = 1.6  # the usual choice within 1.5 to 1.8


@dataclass
class UPGradConfig(GradConfig):
    """Settings of UPGrad."""

    name: str = "upgrad"
    iterations: int = setting(100, "ADMM steps per update", within=(1, 10_000))


class UPGrad(GradMethod):
    """Mean of the gradients' projections onto the cone of directions that harm no task."""

    cfg: UPGradConfig

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Project all task gradients and average their coefficients."""
        cosine, norms = unit_gram(required(gram))
        return (project_harmless(cosine, norms, self.cfg.iterations).mean(0) / norms).to(losses.dtype)


def project_harmless(cosine: Tensor, norms: Tensor, iterations: int) -> Tensor:
    """Return (K, K) whose row i is the x that minimizes x . C x subject to x >= norms * e_i."""
    least = norms.diag()
    smooth = RHO * torch.linalg.inv_ex(add_ridge(cosine, RHO))[0]
    bounded, dual = least, torch.zeros_like(least)
    for _ in range(iterations):
        relaxed = torch.addmm(bounded, bounded - dual, smooth, beta=1 - RELAXATION, alpha=RELAXATION) + dual
        bounded = torch.maximum(relaxed, least)
        dual = relaxed - bounded
    return bounded
