"""Maximize the progress of the worst task, within a ball around the mean gradient: CAGrad.

Liu et al., Conflict-Averse Gradient Descent for Multi-task Learning, NeurIPS 2021. With g_0 the mean gradient, the
update d maximizes min_k g_k . d inside the ball |d - g_0| <= c |g_0|. Its dual picks w on the simplex, g_w = w^T J:

    minimize g_w . g_0 + c |g_0| |g_w|,   d = (g_0 + c |g_0| g_w / |g_w|) / (1 + c^2).

The dual is solved by accelerated projected-gradient steps in x = w * norms, starting from the w of the last update. The
square root is replaced by its tangent parabola, which touches it from above, so the step size follows |g_w|.

Differences from the paper: Another solver with a fixed number of steps. As the length of g_w vanishes (at a
Pareto-stationary point), the update tends to g_0 / (1 + c^2) instead of an undefined direction.

Scale: anchored, |d| lies between (1 - c) / (1 + c^2) and (1 + c) / (1 + c^2) times that of the mean gradient. The
divisor is the authors' rescaling. Cost: per-task gradients and `iterations` rounds of a few (K,) operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polytask.grads.method import required
from polytask.grads.simplex import SimplexConfig, SimplexMethod
from polytask.grads.solvers import descend, spectral_bound, unit_gram
from polytask.settings import setting


@dataclass
class CAGradConfig(SimplexConfig):
    """Settings of CAGrad."""

    name: str = "cagrad"
    c: float = setting(
        0.4, "radius of the ball around the mean gradient, relative to its norm; 0 gives the mean", at_least=0.0
    )


class CAGrad(SimplexMethod):
    """Weights from the solution of the dual, which starts from the last one."""

    cfg: CAGradConfig

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Solve the dual and return the weights of d."""
        cosine, norms = unit_gram(required(gram))
        norms = norms / norms.square().mean().sqrt()  # the weights do not depend on the overall scale
        mean = norms / len(norms)
        radius = self.cfg.c * (mean @ cosine @ mean).clamp_min(0).sqrt()  # c |g_0|
        solution = solve_dual(cosine, norms, radius, self.simplex * norms, self.cfg.iterations)
        self.simplex.copy_(solution / norms)
        length = (solution @ cosine @ solution).clamp_min(0).sqrt()  # |g_w|
        pull = radius / (length + 1e-6)
        return ((1 / len(norms) + pull * self.simplex) / (1 + self.cfg.c**2)).to(losses.dtype)


def solve_dual(cosine: Tensor, norms: Tensor, radius: Tensor, start: Tensor, iterations: int) -> Tensor:
    """Minimize x . C m + radius sqrt(x . C x) over x = w * norms, w on the simplex, with m = norms / K."""
    slope, bound = cosine @ (norms / len(norms)), spectral_bound(cosine)
    # In units in which the matrix's largest eigenvalue is 1. The tangent parabola of the length gives the step size.
    drift = slope / (radius * bound.sqrt() + 1e-12)
    return descend(cosine / bound, drift, 1 / norms, start, iterations)
