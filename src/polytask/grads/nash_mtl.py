"""Maximize the product of the tasks' gains, the Nash bargaining solution: Nash-MTL.

Navon et al., Multi-Task Learning as a Bargaining Game, ICML 2022. The Nash bargaining solution maximizes the sum of the
logarithms of the tasks' gains, which gives J J^T a = 1 / a (elementwise) for positive weights a.

The equation means that the gradient of the convex function a . J J^T a / 2 - sum(log a) is zero. In x = a * norms, with
the cosine matrix C, Newton's method solves it: dx = (C + diag(1 / x^2))^(-1) (1 / x - C x). Each step takes the best of
eight lengths; the longest keeps x positive.

Differences from the paper: The paper solves a sequence of linearized programmes with a conic solver, every few updates.
It clips the result's norm (which is always sqrt(K)) to 1. Here every update is solved, and its length follows the
gradients. A ridge on C keeps x finite at Pareto-stationary points, where the equation has no solution.

Scale: direction, |w^T J| = sqrt(tr(J J^T)) / K with positive weights.
Cost: per-task gradients and `iterations` solutions of a (K, K) linear system.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required
from polytask.grads.solvers import add_ridge, at_mean_scale, unit_gram
from polytask.settings import setting


@dataclass
class NashMTLConfig(GradConfig):
    """Settings of Nash-MTL."""

    name: str = "nash_mtl"
    iterations: int = setting(16, "number of Newton steps per update", within=(1, 10_000))
    ridge: float = setting(1e-6, "added to the diagonal of the cosine matrix", at_least=0.0)


class NashMTL(GradMethod):
    """Weights of the Nash bargaining solution."""

    cfg: NashMTLConfig

    def __init__(self, cfg: NashMTLConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Store the settings and the fractions of the longest step to try."""
        super().__init__(cfg, num_tasks, device, generator)
        self.fractions = 0.5 ** torch.arange(8, dtype=torch.float64, device=device)[:, None]  # (8, 1)

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Solve C x = 1 / x and convert x to weights of the original gradients."""
        cosine, norms = unit_gram(required(gram))
        cosine = add_ridge(cosine, self.cfg.ridge)
        point = (len(norms) / cosine.sum()).sqrt().expand_as(norms)  # the best among equal entries
        for _ in range(self.cfg.iterations):
            point = self._newton(cosine, point)
        return at_mean_scale(point, cosine, norms).to(losses.dtype)

    def _newton(self, cosine: Tensor, point: Tensor) -> Tensor:
        """Return the point with the lowest value among the trial points along the Newton direction."""
        slope = 1 / point - cosine @ point
        move: Tensor = torch.linalg.solve_ex(cosine + (1 / point.square()).diag(), slope)[0]
        longest = 1 / (-move / (0.99 * point)).amax().clamp_min(1)
        trials = point + self.fractions * longest * move  # (8, K)
        values = (trials @ cosine * trials).sum(1) / 2 - trials.log().sum(1)
        best: Tensor = trials.index_select(0, values.argmin(0, keepdim=True)).squeeze(0)
        return best
