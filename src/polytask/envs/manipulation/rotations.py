"""Rotation conversions for observations."""

from __future__ import annotations

import torch
from torch import Tensor


def wxyz_to_xyzw(quaternion: Tensor) -> Tensor:
    """Move the scalar to the back and choose the sign that makes the largest component positive. (N, 4)"""
    moved = quaternion.roll(-1, -1)
    largest = moved.gather(1, moved.abs().argmax(-1, keepdim=True))
    return moved * torch.where(largest < 0, -1.0, 1.0)
