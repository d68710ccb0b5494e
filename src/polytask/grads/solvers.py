"""Solve the small problems that gradient methods pose, in a fixed number of tensor operations.

Nothing here waits for the host or branches on data, so every method can be captured into a CUDA graph. Methods work on
unit gradients (`unit_gram`): a change of variables that costs nothing and makes convergence independent of how unequal
the tasks' gradient norms are. All of it runs in float64, because the matrices are tiny and often nearly singular.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

NORM_FLOOR = 1e-6  # a gradient this much shorter than the longest is treated as if it had that length


def unit_gram(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Split a Gram matrix into the cosines (K, K) and the norms (K,) of the gradients, in float64.

    A vanishing gradient gets a small positive norm instead, and cosines (its own included) of nearly zero.
    """
    gram = gram.double()
    norms = gram.diagonal().clamp_min(0).sqrt()
    norms = torch.maximum(norms, NORM_FLOOR * norms.amax()).clamp_min(1e-30)
    return gram / norms / norms[:, None], norms


def spectral_bound(matrix: Tensor) -> Tensor:
    """Bound the largest eigenvalue of a symmetric matrix from above, at most K^(1/16) times too high."""
    eighth: Tensor = torch.linalg.matrix_power(matrix, 8)
    return eighth.abs().sum(-1).amax().clamp_min(1e-30).pow(1 / 8)


def project_simplex(point: Tensor, price: Tensor) -> Tensor:
    """Project a point (K,) onto {x >= 0, price . x = 1}; all prices 1 make it the probability simplex.

    The solution is max(point - shift * price, 0), with the shift that meets the budget (Duchi et al. 2008, weighted).
    """
    order = (point / price).argsort(descending=True)
    point_sorted, price_sorted = point[order], price[order]
    shifts = ((price_sorted * point_sorted).cumsum(0) - 1) / price_sorted.square().cumsum(0)
    last = (point_sorted > shifts * price_sorted).sum(0, keepdim=True) - 1  # last entry that stays positive
    return (point - shifts.gather(0, last) * price).clamp_min(0)


def accelerate(step: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> Tensor:
    """Repeat a proximal-gradient step with FISTA's momentum, restarted where it points uphill.

    FISTA is Beck and Teboulle 2009, the restart O'Donoghue and Candes 2015; rows of `start` (..., K) are independent.
    """
    current = ahead = start
    age = torch.ones_like(start[..., :1])
    for _ in range(iterations):
        following = step(ahead)
        uphill = ((ahead - following) * (following - current)).sum(-1, keepdim=True) > 0
        age = age.masked_fill(uphill, 1)
        next_age = (1 + (1 + 4 * age.square()).sqrt()) / 2
        ahead = following + (age - 1) / next_age * (following - current)
        current, age = following, next_age
    return current


def inverse_sqrt(matrix: Tensor, ridge: float) -> Tensor:
    """Return (matrix + ridge * mean eigenvalue * I)^(-1/2) of a positive semi-definite matrix.

    The coupled Newton-Schulz iteration needs only products, unlike an eigendecomposition, which waits for the host. The
    ridge must exceed the rounding errors of the matrix: an eigenvalue below zero would make the iteration diverge.
    """
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    trace = matrix.trace().clamp_min(1e-60)
    root = (matrix / trace + ridge / len(matrix) * identity) / (1 + ridge)  # largest eigenvalue at most 1
    inverse = identity
    # An iteration multiplies small eigenvalues by 9/4; six more are enough to square away what is left near 1.
    for _ in range(math.ceil(math.log(len(matrix) / ridge, 9 / 4)) + 6):
        correction = 1.5 * identity - 0.5 * inverse @ root
        root, inverse = root @ correction, correction @ inverse
    return inverse / (trace * (1 + ridge)).sqrt()


def at_mean_scale(weights: Tensor, gram: Tensor) -> Tensor:
    """Scale weights so that their gradient is as long as the mean of orthogonal gradients: sqrt(tr(gram)) / K."""
    length = (weights @ gram @ weights).clamp_min(1e-60).sqrt()
    return weights * gram.trace().clamp_min(0).sqrt() / (len(weights) * length)
