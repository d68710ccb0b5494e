"""Choose the direction with equal progress along every task's gradient: IMTL-G.

Liu et al., Towards Impartial Multi-task Learning, ICLR 2021. The combined gradient has the same projection onto every
unit task gradient. With the cosine matrix C and the gradients' norms, w = C^(-1) 1 / norms up to a factor.

Differences from the paper: In the paper the weights sum to 1. This reverses the step when the sum of C^(-1) 1 / norms
is negative, and a vanishing gradient suppresses all others. Here the length is fixed instead, and the projections are
always positive. A ridge avoids a division by zero for linearly dependent gradients.

Scale: direction, |w^T J| = sqrt(tr(J J^T)) / K. Weights may be negative.
Cost: per-task gradients and the solution of one (K, K) linear system.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required
from polytask.grads.solvers import add_ridge, at_mean_scale, unit_gram
from polytask.settings import setting


@dataclass
class IMTLGConfig(GradConfig):
    """Settings of IMTL-G."""

    name: str = "imtl_g"
    ridge: float = setting(1e-6, "added to the diagonal of the cosine matrix", at_least=0.0)


class IMTLG(GradMethod):
    """Weights of the equiangular direction."""

    cfg: IMTLGConfig

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Solve C u = 1 and convert u to weights of the original gradients."""
        cosine, norms = unit_gram(required(gram))
        cosine = add_ridge(cosine, self.cfg.ridge)
        point = torch.linalg.solve_ex(cosine, torch.ones_like(norms))[0]
        return at_mean_scale(point, cosine, norms).to(losses.dtype)
