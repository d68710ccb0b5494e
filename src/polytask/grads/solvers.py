"""Solvers for the small problems of the gradient methods, with a fixed number of tensor operations.

Nothing here waits for the host or branches on data, so every method can be captured into a CUDA graph. Methods work on
unit gradients (`unit_gram`). This change of variables costs nothing, and convergence then does not depend on how
unequal the gradient norms of the tasks are. All solvers use float64, because the matrices are small and often nearly
singular.
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

NORM_FLOOR = 1e-6  # smallest norm, relative to the longest gradient; shorter gradients are treated as this long


def unit_gram(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Split a Gram matrix into the cosines (K, K) and the norms (K,) of the gradients, in float64.

    A zero gradient gets a small positive norm and is orthogonal to the others, so that no method fails on it.
    """
    gram = gram.double()
    norms = gram.diagonal().clamp_min(0).sqrt()
    norms = torch.maximum(norms, NORM_FLOOR * norms.amax()).clamp_min(1e-30)
    cosine = gram / norms / norms[:, None]
    cosine.diagonal().fill_(1)
    return cosine, norms


def spectral_bound(matrix: Tensor) -> Tensor:
    """Return an upper bound on the largest eigenvalue of a symmetric matrix, at most K^(1/16) times too high."""
    eighth: Tensor = torch.linalg.matrix_power(matrix, 8)
    return eighth.abs().sum(-1).amax().clamp_min(1e-30).pow(1 / 8)


def project_simplex(point: Tensor, price: Tensor) -> Tensor:
    """Project a point (K,) onto {x >= 0, price . x = 1}; with all prices 1 this is the probability simplex.

    The solution is max(point - shift * price, 0). If exactly the entries of a set stay positive, price . x = 1 gives
    the shift. The right shift is the largest over K sets: set j has all entries with a ratio point / price of at least
    that of entry j.
    """
    ratio = point / price
    sets = (ratio >= ratio[:, None]).to(point.dtype)  # (K, K), row j: the set of entry j
    shifts = (sets @ (price * point) - 1) / (sets @ price.square())
    return (point - shifts.amax() * price).clamp_min(0)


def descend(matrix: Tensor, drift: Tensor, price: Tensor, start: Tensor, iterations: int) -> Tensor:
    """Minimize x . M x / 2 + |x|_M x . drift, as if the length |x|_M were constant, over {x >= 0, price . x = 1}.

    Each accelerated step uses the length sqrt(x . M x) of its starting point. With a drift of zero this is a quadratic
    programme. On a GPU the steps run as one kernel (`kernels`), because separate launches would take longer than the
    rest of an update. On the CPU, and where Triton cannot build the kernel, they run as tensor operations.

    Args:
        matrix: Positive semi-definite, largest eigenvalue at most 1. (K, K)
        drift: (K,)
        price: Positive. (K,)
        start: Starting point. (K,)
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
    """Return the module of GPU kernels; where Triton is missing or cannot build them, warn once and return None."""
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

    FISTA is from Beck and Teboulle 2009, the restart from O'Donoghue and Candes 2015; `start` is (K,).
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

    The coupled Newton-Schulz iteration needs only products. An eigendecomposition would wait for the host. The ridge
    must exceed the rounding errors of the matrix, because the iteration diverges for a negative eigenvalue.
    """
    identity = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    trace = matrix.trace().clamp_min(1e-60)
    root = (matrix / trace + ridge / len(matrix) * identity) / (1 + ridge)  # largest eigenvalue at most 1
    inverse = identity
    # An iteration multiplies small eigenvalues by 9/4. Six more are enough, because convergence near 1 is quadratic.
    for _ in range(math.ceil(math.log(len(matrix) / ridge, 9 / 4)) + 6):
        correction = 1.5 * identity - 0.5 * inverse @ root
        root, inverse = root @ correction, correction @ inverse
    return inverse / (trace * (1 + ridge)).sqrt()


def at_mean_scale(point: Tensor, cosine: Tensor, norms: Tensor) -> Tensor:
    """Convert coefficients of unit gradients to weights whose gradient has the length sqrt(sum of squared norms) / K.

    This is the length of the mean of orthogonal gradients. A ridge on the cosine matrix counts as length. So where the
    gradients cancel, the step goes to zero instead of following rounding errors.
    """
    length = (point @ cosine @ point).sqrt()
    return point / norms * norms.square().sum().sqrt() / (len(norms) * length)


def add_ridge(matrix: Tensor, ridge: float) -> Tensor:
    """Return the matrix plus `ridge` times the identity."""
    return matrix + ridge * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
