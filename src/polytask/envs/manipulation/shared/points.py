"""Points in space: constant offsets, heights and distances, for placements, observations, rewards and experts."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.sim.geometry import distance
from polytask.sim.view import constant


def offset(point: Tensor, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Tensor:
    """Return the point moved by a constant. (N, 3)"""
    return point + constant((x, y, z), point)


def at_height(point: Tensor, z: float | Tensor) -> Tensor:
    """Return the point with its height replaced. (N, 3)"""
    height = torch.full_like(point[:, 2], z) if not isinstance(z, Tensor) else z
    return torch.stack([point[:, 0], point[:, 1], height], -1)


def planar_gap(a: Tensor, b: Tensor) -> Tensor:
    """Return the distance of two points in the xy plane. (N,)"""
    return distance(a[:, :2], b[:, :2])
