"""Make the task gradients orthogonal and equally long before averaging them: Aligned-MTL.

Senushkin et al., Independent Component Alignment for Multi-Task Learning, CVPR 2023. The Jacobian is replaced by the
nearest matrix whose singular values are all equal, so no direction of the gradient space dominates. With the Gram
matrix G and the common singular value s, the weights are s G^(-1/2) 1 / K.

Differences from the paper: s is the root mean square of the singular values, as in the authors' code. The paper takes
the smallest one, which gives the same direction but shrinks the step with the condition number. A ridge replaces the
cut-off of small singular values, and products replace the eigendecomposition.

Scale: direction, |w^T J| = sqrt(tr(J J^T)) / K. Weights may be negative.
Cost: per-task gradients and about 100 products of (K, K) matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from polytask.grads.method import GradConfig, GradMethod, required
from polytask.grads.solvers import inverse_sqrt
from polytask.settings import setting


@dataclass
class AlignedMTLConfig(GradConfig):
    """Settings of Aligned-MTL."""

    name: str = "aligned_mtl"
    ridge: float = setting(1e-6, "added to the Gram matrix's diagonal, relative to its mean eigenvalue", at_least=0.0)


class AlignedMTL(GradMethod):
    """Mean of aligned gradients."""

    cfg: AlignedMTLConfig

    def weights(self, losses: Tensor, gram: Tensor | None) -> Tensor:
        """Return the weights s G^(-1/2) 1 / K."""
        gram = required(gram).double()
        scale = (gram.trace().clamp_min(0) / len(gram)).sqrt()  # root mean square of the singular values
        return (scale * inverse_sqrt(gram, self.cfg.ridge).mean(1)).to(losses.dtype)
