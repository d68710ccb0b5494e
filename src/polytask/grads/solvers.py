"""Solve the small problems that gradient methods pose, in a fixed number of tensor operations.

Nothing here waits for the host or branches on data, so every method can be captured into a CUDA graph. Methods work on
unit gradients (`unit_gram`): a change of variables that costs nothing and makes convergence independent of how unequal
the tasks' gradient norms are. All of it runs in float64, because the matrices are tiny and often nearly singular.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from subprocess import SubprocessError
from types import ModuleType

import torch
from torch import Tensor

NORM_FLOOR = 1e-6  # a gradient this much shorter than the longest is treated as if it had that length


def unit_gram(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Split a Gram matrix into the cosines (K, K) and the norms (K,) of the gradients, in float64.

    A vanishing gradient gets a small positive norm and is orthogonal to the others, so that no method fails on it.
    """
    gram = gram.double()
    norms = gram.diagonal().clamp_min(0).sqrt()
    norms = torch.maximum(norms, NORM_FLOOR * norms.amax()).clamp_min(1e-30)
    cosine = gram / norms / norms[:, None]
    cosine.diagonal().fill_(1)
    return cosine, norms


def spectral_bound(matrix: Tensor) -> Tensor:
    """Bound the largest eigenvalue of a symmetric matrix from above, at most K^(1/16) times too high."""
    eighth: Tensor = torch.linalg.matrix_power(matrix, 8)
    return eighth.abs().sum(-1).amax().clamp_min(1e-30).pow(1 / 8)


def project_simplex(point: Tensor, price: Tensor) -> Tensor:
    """Project a point (K,) onto {x >= 0, price . x = 1}; all prices 1 make it the probability simplex.

    The solution is max(point - shift * price, 0). If the entries of a set stay positive, spending the budget on them
    gives a shift; the right one is the largest over the sets "all entries whose ratio point / price is at least mine".
    """
    ratio = point / price
    sets = (ratio >= ratio[:, None]).to(point.dtype)  # (K, K), row j: the set of entry j
    shifts = (sets @ (price * point) - 1) / (sets @ price.square())
    return (point - shifts.amax() * price).clamp_min(0)


def descend(matrix: Tensor, drift: Tensor, price: Tensor, start: Tensor, iterations: int) -> Tensor:
    """Minimize x . M x / 2 + |x|_M x . drift, as if the length |x|_M were given, over {x >= 0, price . x = 1}.

    Each accelerated step takes the length sqrt(x . M x) of the point it leaves from. A drift of zero makes it a
    quadratic programme. On a GPU the steps run as one kernel (`kernels`), since launching them one by one would take
    longer than everything else in an update; where Triton cannot build it, and on the CPU, as tensor operations.

    Args:
        matrix: Positive semi-definite, largest eigenvalue at most 1. (K, K)
        drift: (K,)
        price: Positive. (K,)
        start: Where to start. (K,)
        iterations: Number of steps.
    """
    if start.is_cuda and (kernels := fused_kernels()) is not None and len(start) <= kernels.MAX_TASKS:
        result: Tensor = kernels.descend(matrix, drift, price, start, iterations)
        return result

    def step(point: Tensor) -> Tensor:
        image = matrix @ point
        length = (point @ image).clamp_min(1e-12).sqrt()
        return project_simplex(point - image - length * drift, price)

    return accelerate(step, start, iterations)


@cache
def fused_kernels() -> ModuleType | None:
    """Return the module of GPU kernels, or None, with one warning, where Triton is missing or cannot build them."""
    try:
        kernels = import_module("polytask.grads.kernels")
        ones = torch.ones(2, dtype=torch.float64, device="cuda")
        kernels.descend(ones.diag(), ones, ones, ones / 2, 2)
    except (ImportError, OSError, RuntimeError, SubprocessError) as error:
        # Triton comes with PyTorch's CUDA builds, but needs a C compiler and Python's headers.
        warnings.warn(f"Triton does not work, so CAGrad and MGDA are several times slower: {error}", stacklevel=2)
        return None
    return kernels


def accelerate(step: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> Tensor:
    """Repeat a proximal-gradient step with FISTA's momentum, restarted where it points uphill.

    FISTA is Beck and Teboulle 2009, the restart O'Donoghue and Candes 2015; `start` is (K,).
    """
    current = ahead = start
    age = torch.zeros_like(start[0])  # steps since the last restart
    for _ in range(iterations):
        following = step(ahead)
        move = following - current
        downhill = (ahead - following) @ move <= 0
        age = (age + 1) * downhill
        ahead = torch.addcmul(following, age / (age + 3), move)
        current = following
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


def at_mean_scale(point: Tensor, cosine: Tensor, norms: Tensor) -> Tensor:
    """Turn coefficients of unit gradients into weights whose gradient is sqrt(sum of squared norms) / K long.

    That is the length of the mean of orthogonal gradients. A ridge on the cosine matrix counts as length, so that the
    step fades, instead of following rounding errors, where the gradients cancel.
    """
    length = (point @ cosine @ point).sqrt()
    return point / norms * norms.square().sum().sqrt() / (len(norms) * length)


def add_ridge(matrix: Tensor, ridge: float) -> Tensor:
    """Add a multiple of the identity."""
    return matrix + ridge * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
