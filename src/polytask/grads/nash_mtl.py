"""Let the tasks bargain over the step: Nash-MTL.

Navon et al., Multi-Task Learning as a Bargaining Game, ICML 2022. The Nash bargaining solution maximises the sum of the
logarithms of the tasks' gains, which gives J J^T a = 1 / a (elementwise) for positive weights a.

That equation says that the gradient of the convex function a . J J^T a / 2 - sum(log a) is zero. In x = a * norms, with
the cosine matrix C, it is minimised by accelerated proximal-gradient steps: z = x - C x / L, then
x = (z + sqrt(z^2 + 4 / L)) / 2, the proximal point of -log(x) / L; L bounds the largest eigenvalue of C.

Differences from the paper: it solves a sequence of linearised programmes with a conic solver, every few updates, and
clips the result's norm (which is always sqrt(K)) to 1; here every update is solved, warm-started, and has a length that
follows the gradients.

Scale: direction, |w^T J| = sqrt(tr(J J^T)) / K with positive weights.
Cost: per-task gradients and `iterations` rounds of a few (K,) operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required
from polytask.grads.solvers import accelerate, at_mean_scale, spectral_bound, unit_gram


@dataclass
class NashMTLConfig(GradConfig):
    """Settings of Nash-MTL."""

    iterations: int = 50  # proximal-gradient steps an update


class NashMTL(GradMethod):
    """Weights of the Nash bargaining solution, warm-started."""

    def __init__(self, cfg: NashMTLConfig, num_tasks: int, device: torch.device, generator: torch.Generator) -> None:
        """Start from the solution for orthogonal gradients."""
        self.cfg = cfg
        self.bargain = torch.ones(num_tasks, dtype=torch.float64, device=device)  # x = a * norms

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Solve C x = 1 / x and undo the unit lengths."""
        gram = required(gram).double()
        cosine, norms = unit_gram(gram)
        bound = spectral_bound(cosine)

        def step(point: Tensor) -> Tensor:
            point = point - cosine @ point / bound
            return (point + (point.square() + 4 / bound).sqrt()) / 2

        self.bargain.copy_(accelerate(step, self.bargain, self.cfg.iterations))
        return at_mean_scale(self.bargain / norms, gram).to(losses.dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the last solution for unit gradients."""
        return {"bargain": self.bargain}
