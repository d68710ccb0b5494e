"""New drops: random poses from which the objects fall into the bin."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.mtopt.tasks import KINDS
from polytask.mtopt.world.layout import LEFT_BIN, RIGHT_BIN
from polytask.sim.view import constant

_PITCH = 0.08  # between the cells of a three by three grid over the bin
_JITTER = 0.012
# Heights above the walls. Cells of one layer are two apart, so that no two objects overlap at the start.
_LAYERS = (0.07, 0.135, 0.20, 0.265)
_TILT = 0.1  # largest, rad
_PARKED = (0.0, 0.36, 0.005)  # of the lid, out of the hand's way
_NEAR = 0.06  # largest distance of the object to be covered from the plate's centre along x and y, m


def _cells() -> tuple[tuple[float, float, float], ...]:
    return tuple(
        (_PITCH * (column - 1), _PITCH * (row - 1), _LAYERS[column % 2 + 2 * (row % 2)])
        for row in range(3)
        for column in range(3)
    )


def uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    """Draw uniformly between two bounds, on the generator's device."""
    return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)


def draw_objects(num_envs: int, generator: torch.Generator) -> Tensor:
    """Draw poses (N, 7, 7) from which the seven objects fall into the right bin."""
    count = len(KINDS)
    noise = torch.rand(num_envs, 9, generator=generator, device=generator.device)
    flat = tuple(value for cell in _cells() for value in cell)
    cells = constant(flat, noise).view(9, 3)[noise.argsort(-1)[:, :count]]  # (N, 7, 3)
    place = cells + constant((*RIGHT_BIN, 0.0), noise)
    place[..., :2] += uniform((num_envs, count, 2), -_JITTER, _JITTER, generator)
    return torch.cat([place, _tilted_yaw(num_envs, count, generator)], -1)


def _tilted_yaw(num_envs: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw orientations (N, count, 4) of any yaw and little tilt."""
    half = 0.5 * uniform((num_envs, count), -math.pi, math.pi, generator)
    tilt = 0.5 * uniform((num_envs, count), -_TILT, _TILT, generator)
    return torch.stack(  # yaw after a tilt about the object's y axis
        [half.cos() * tilt.cos(), -half.sin() * tilt.sin(), half.cos() * tilt.sin(), half.sin() * tilt.cos()], -1
    )


def put_one_on_plate(poses: Tensor, generator: torch.Generator) -> Tensor:
    """Move one of each world's objects (N, 7, 7) above the plate; the lid is to cover it."""
    num_envs = len(poses)
    lots = torch.rand(num_envs, len(KINDS), generator=generator, device=generator.device)
    chosen = lots == lots.amax(-1, keepdim=True)
    place = uniform((num_envs, 1, 2), -_NEAR, _NEAR, generator) + constant(LEFT_BIN, poses)
    height = torch.full_like(place[..., :1], _LAYERS[0])
    moved = torch.cat([torch.cat([place, height], -1).expand(-1, len(KINDS), -1), poses[..., 3:]], -1)
    return torch.where(chosen[..., None], moved, poses)


def parked_lid(like: Tensor) -> Tensor:
    """Return the pose (7,) of the lid on the table."""
    return constant((*_PARKED, 1.0, 0.0, 0.0, 0.0), like)
