"""Differential inverse kinematics of a chain of hinges, batched and free of host synchronisation."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.tasks.state import constant

_DAMPING = 0.05  # keeps the step bounded where the chain is stretched out and the Jacobian loses rank
_UNIT = tuple(tuple(float(row == column) for column in range(6)) for row in range(6))


def hinge_axes(quat: Tensor) -> Tensor:
    """Return the z axes of frames given as wxyz quaternions. (..., 4) -> (..., 3)"""
    w, x, y, z = quat.unbind(-1)
    return torch.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], -1)


def rotation_error(quat: Tensor, goal: tuple[float, float, float, float]) -> Tensor:
    """Return twice the sine of half the turn that takes orientations (N, 4) to `goal`, along its axis. (N, 3)"""
    gw, gx, gy, gz = goal
    w, x, y, z = quat.unbind(-1)
    cosine = gw * w + gx * x + gy * y + gz * z
    sine = torch.stack(
        [
            gx * w - gw * x + gz * y - gy * z,
            gy * w - gw * y + gx * z - gz * x,
            gz * w - gw * z + gy * x - gx * y,
        ],
        -1,
    )
    return 2 * sine * torch.where(cosine < 0, -1.0, 1.0)[:, None]  # the shorter way round


def joint_step(axes: Tensor, arms: Tensor, error: Tensor, drift: Tensor) -> Tensor:
    """Return the joint motion that removes a pose error and, where that leaves freedom, drifts as asked.

    Damped least squares on the geometric Jacobian J: `drift + J^T (J J^T + damping^2)^-1 (error - J drift)`.

    Args:
        axes: Joint axes in the world frame. (N, J, 3)
        arms: From each joint to the controlled point. (N, J, 3)
        error: Position error and rotation vector. (N, 6)
        drift: Joint motion that is wanted but for its effect on the pose. (N, J)
    """
    transposed = torch.cat([torch.linalg.cross(axes, arms), axes], -1)  # (N, J, 6)
    gram = transposed.mT @ transposed
    for index in range(6):
        gram[:, index, index] += _DAMPING**2
    rest = error - (drift[:, None] @ transposed)[:, 0]
    return drift + (transposed @ solve_positive(gram, rest)[:, :, None])[:, :, 0]


def solve_positive(matrix: Tensor, vector: Tensor) -> Tensor:
    """Solve positive definite systems by elimination without pivoting. (N, D, D), (N, D) -> (N, D)

    A library solver would do, but not all of them can be captured in a graph on every device.
    """
    table = torch.cat([matrix, vector[:, :, None]], -1)  # (N, D, D + 1)
    for index in range(matrix.shape[-1]):
        row = table[:, index] / table[:, index, index, None]
        table = table - table[:, :, index, None] * row[:, None]
        table[:, index] = row
    return table[:, :, -1]
