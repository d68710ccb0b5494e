"""Distances and rotations with tensors; quaternions are wxyz."""

from __future__ import annotations

import torch
from torch import Tensor

Part = float | Tensor  # one number for all rotations, or one per rotation (N,)
Quaternion = tuple[Part, Part, Part, Part]  # wxyz


def distance(a: Tensor, b: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return the Euclidean distance along the last axis; `weight` multiplies the error along each coordinate."""
    error = a - b if weight is None else weight * (a - b)
    return torch.linalg.vector_norm(error, dim=-1)


def right_product(quaternion: Tensor) -> Tensor:
    """Return the matrix M (4, 4) for which `p @ M` is the quaternion product of p and `quaternion`, both wxyz (4,)."""
    w, x, y, z = quaternion.tolist()
    return quaternion.new_tensor([[w, x, y, z], [-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])


def rotation_matrix(quat: Tensor) -> Tensor:
    """Turn wxyz quaternions (..., 4) into rotation matrices. (..., 3, 3)"""
    w, x, y, z = quat.unbind(-1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def z_axis(quat: Tensor) -> Tensor:
    """Return the z axes of frames given as wxyz quaternions, the last column of `rotation_matrix`. (..., 3)"""
    w, x, y, z = quat.unbind(-1)
    return torch.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], -1)


def euler(quat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return roll, pitch and yaw, (N,) each, of wxyz quaternions (N, 4)."""
    w, x, y, z = quat.unbind(-1)
    roll = torch.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = torch.asin((2 * (w * y - z * x)).clamp(-1.0, 1.0))
    yaw = torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw


def rotate_back(quat: Tensor, vector: Tensor) -> Tensor:
    """Express world vectors (N, 3) in frames given as wxyz quaternions (N, 4)."""
    w, axis = quat[:, :1], -quat[:, 1:]
    twice = 2 * torch.linalg.cross(axis, vector)
    return vector + w * twice + torch.linalg.cross(axis, twice)


def rotation_error(quat: Tensor, goal: Quaternion) -> Tensor:
    """Return the rotation from orientations (N, 4) to `goal`, as its axis times twice the sine of half its angle.

    For small errors this is the rotation vector in the world frame. (N, 3)
    """
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
    return 2 * torch.copysign(torch.ones_like(cosine), cosine)[:, None] * sine  # the shorter one of the two rotations


def wxyz_to_xyzw(quaternion: Tensor) -> Tensor:
    """Move the scalar to the back and choose the sign that makes the largest component positive. (N, 4)"""
    moved = quaternion.roll(-1, -1)
    largest = moved.gather(1, moved.abs().argmax(-1, keepdim=True))
    return moved * torch.where(largest < 0, -1.0, 1.0)
