"""Take the shortest convex combination of the task gradients: MGDA.

Desideri, Multiple-gradient descent algorithm, Comptes Rendus Mathematique 2012; Sener and Koltun, Multi-Task Learning
as Multi-Objective Optimization, NeurIPS 2018. The weights minimize |w^T J|^2 over the simplex. The result is a descent
direction of every task, or zero at a Pareto-stationary point. With `normalize` the weights are those of gradients that
are divided by their norms, by their losses, or by both, as Sener and Koltun's code offers; the update combines the
original gradients with these weights, as theirs does.

Differences from the papers: Accelerated projected-gradient steps in x = w * norms replace Frank-Wolfe steps, and start
from the weights of the last update.

Scale: convex, but the result is never longer than the shortest task gradient, so MGDA stops when one task has nothing
left to learn. Cost: per-task gradients and `iterations` rounds of a few (K,) operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import required
from polytask.grads.simplex import SimplexConfig, SimplexMethod
from polytask.grads.solvers import NORM_FLOOR, descend, spectral_bound, unit_gram
from polytask.settings import setting

NORMALIZATIONS = ("none", "l2", "loss", "loss+")


@dataclass
class MGDAConfig(SimplexConfig):
    """Settings of MGDA."""

    name: str = "mgda"
    normalize: str = setting(
        "none",
        "what each task's gradient is divided by while the weights are found: none, l2 (its norm), loss (its loss) or "
        "loss+ (both)",
        choices=NORMALIZATIONS,
    )


class MGDA(SimplexMethod):
    """Weights of least norm; the solver starts from the last ones."""

    cfg: MGDAConfig

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the weights that minimize the length of the combined gradient."""
        cosine, norms = unit_gram(required(gram))
        norms = self._normalized(norms, losses)
        norms = norms / norms.amin()
        matrix, price, start = cosine / spectral_bound(cosine), 1 / norms, self.simplex * norms
        solution = descend(matrix, torch.zeros_like(price), price, start, self.cfg.iterations)
        self.simplex.copy_(solution / norms)
        return self.simplex.to(losses.dtype)

    def _normalized(self, norms: Tensor, losses: Tensor) -> Tensor:
        """Return the lengths (K,) of the gradients that the weights are found for."""
        if self.cfg.normalize in ("l2", "loss+"):
            norms = torch.ones_like(norms)
        if self.cfg.normalize in ("loss", "loss+"):
            size = losses.double().abs()
            norms = norms / torch.maximum(size, NORM_FLOOR * size.amax()).clamp_min(1e-30)
        return norms
