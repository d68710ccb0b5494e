"""Differential inverse kinematics of a chain of hinges, for N chains at once and without waiting for the device."""

from __future__ import annotations

import torch
from torch import Tensor

_DAMPING = 0.05  # keeps steps bounded where the chain is stretched out and the Jacobian loses rank


def joint_step(axes: Tensor, arms: Tensor, error: Tensor, drift: Tensor) -> Tensor:
    """Return the joint motion (N, J) that removes a pose error and follows `drift` in the remaining freedom.

    Damped least squares on the geometric Jacobian J: `drift + J^T (J J^T + damping^2)^-1 (error - J drift)`.

    Args:
        axes: Joint axes in the world frame. (N, J, 3)
        arms: Vector from each joint's anchor to the controlled point. (N, J, 3)
        error: Position error and rotation vector. (N, 6)
        drift: Wanted joint motion; its effect on the pose is removed. (N, J)
    """
    transposed = torch.cat([torch.linalg.cross(axes, arms), axes], -1)  # (N, J, 6)
    gram = transposed.mT @ transposed
    gram.diagonal(dim1=-2, dim2=-1).add_(_DAMPING**2)
    rest = error - (drift[:, None] @ transposed)[:, 0]
    return drift + (transposed @ solve_positive(gram, rest)[:, :, None])[:, :, 0]


def solve_positive(matrix: Tensor, vector: Tensor) -> Tensor:
    """Solve positive definite systems by elimination without pivots, (N, D, D) and (N, D) to (N, D).

    It uses plain tensor operations, because a graph cannot capture every library solver.
    """
    table = torch.cat([matrix, vector[:, :, None]], -1)  # (N, D, D + 1)
    for index in range(matrix.shape[-1]):
        row = table[:, index] / table[:, index, index, None]
        table = table - table[:, :, index, None] * row[:, None]
        table[:, index] = row
    return table[:, :, -1]
