"""Rotation conversions for observations."""

from __future__ import annotations

import torch
from torch import Tensor


def matrix_to_xyzw(matrix: Tensor) -> Tensor:
    """Convert rotation matrices (N, 3, 3) to scalar-last quaternions (N, 4), as recorded observations have them.

    The sign is chosen so that the largest component is positive.
    """
    m = matrix.flatten(-2)  # (N, 9), row-major
    diagonal = m[:, ::4]
    trace = diagonal.sum(-1, keepdim=True)
    # Row k is four times component k times the quaternion: pick the row of the largest component, then normalise.
    xx, yy, zz = (2 * diagonal - trace).unbind(-1)
    xy, xz, yz = m[:, 1] + m[:, 3], m[:, 2] + m[:, 6], m[:, 5] + m[:, 7]
    xw, yw, zw = m[:, 7] - m[:, 5], m[:, 2] - m[:, 6], m[:, 3] - m[:, 1]
    rows = torch.stack(
        [
            torch.stack([1 + xx, xy, xz, xw], -1),
            torch.stack([xy, 1 + yy, yz, yw], -1),
            torch.stack([xz, yz, 1 + zz, zw], -1),
            torch.stack([xw, yw, zw, 1 + trace[:, 0]], -1),
        ],
        1,
    )  # (N, 4, 4)
    largest = torch.cat([diagonal, trace], -1).argmax(-1)
    chosen = rows.gather(1, largest[:, None, None].expand(-1, 1, 4))[:, 0]
    return chosen / torch.linalg.vector_norm(chosen, dim=-1, keepdim=True)


def wxyz_to_xyzw(quaternion: Tensor) -> Tensor:
    """Move the scalar to the back and choose the sign that makes the largest component positive. (N, 4)"""
    moved = quaternion.roll(-1, -1)
    largest = moved.gather(1, moved.abs().argmax(-1, keepdim=True))
    return moved * torch.where(largest < 0, -1.0, 1.0)
