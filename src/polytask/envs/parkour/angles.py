"""Directions in the plane as angles."""

from __future__ import annotations

import torch
from torch import Tensor


def bearing(vector: Tensor) -> Tensor:
    """Return the direction of vectors (N, 2) as an angle from the x axis. (N,)"""
    return torch.atan2(vector[:, 1], vector[:, 0])


def wrapped(angle: Tensor) -> Tensor:
    """Return the same angles within [-pi, pi]."""
    return torch.atan2(torch.sin(angle), torch.cos(angle))
