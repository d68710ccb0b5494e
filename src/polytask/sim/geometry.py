"""Distances and rotations with tensors; quaternions are wxyz."""

from __future__ import annotations

import torch
from torch import Tensor


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the Euclidean distance along the last axis."""
    return torch.linalg.vector_norm(a - b, dim=-1)


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
