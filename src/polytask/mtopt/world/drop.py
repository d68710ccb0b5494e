"""New drops: where objects start to fall when the bin has been tipped out and filled again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.mtopt.tasks import KINDS
from polytask.mtopt.world.layout import LEFT_BIN, RIGHT_BIN
from polytask.sim.view import constant

_PITCH = 0.08  # between the cells of a three by three grid over the bin
_JITTER = 0.012
# Heights above the walls. Cells of one layer are two apart, so that nothing starts within anything else.
_LAYERS = (0.07, 0.135, 0.20, 0.265)
_TILT = 0.1  # rad, the most
_PARKED = (0.0, 0.36, 0.005)  # the lid, out of the hand's way
_NEAR = 0.06  # how far from the plate's middle the object to be covered may be


def _cells() -> tuple[tuple[float, float, float], ...]:
    return tuple(
        (_PITCH * (column - 1), _PITCH * (row - 1), _LAYERS[column % 2 + 2 * (row % 2)])
        for row in range(3)
        for column in range(3)
    )


def uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    """Draw evenly between two bounds, on the generator's device."""
    return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)


def draw_objects(num_worlds: int, generator: torch.Generator) -> Tensor:
    """Draw poses from which the seven objects fall into the right bin. (N, 7, 7)"""
    count = len(KINDS)
    noise = torch.rand(num_worlds, 9, generator=generator, device=generator.device)
    flat = tuple(value for cell in _cells() for value in cell)
    cells = constant(flat, noise).view(9, 3)[noise.argsort(-1)[:, :count]]  # (N, 7, 3)
    place = cells + constant((*RIGHT_BIN, 0.0), noise)
    place[..., :2] += uniform((num_worlds, count, 2), -_JITTER, _JITTER, generator)
    return torch.cat([place, _tilted_yaw(num_worlds, count, generator)], -1)


def _tilted_yaw(num_worlds: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw orientations of any yaw and little tilt. (N, count, 4)"""
    half = 0.5 * uniform((num_worlds, count), -math.pi, math.pi, generator)
    tilt = 0.5 * uniform((num_worlds, count), -_TILT, _TILT, generator)
    return torch.stack(  # yaw after a tilt about the object's y axis
        [half.cos() * tilt.cos(), -half.sin() * tilt.sin(), half.cos() * tilt.sin(), half.sin() * tilt.cos()], -1
    )


def put_one_on_plate(poses: Tensor, generator: torch.Generator) -> Tensor:
    """Move one of each world's objects (N, 7, 7) to the plate, for the lid to cover."""
    num_worlds = len(poses)
    lots = torch.rand(num_worlds, len(KINDS), generator=generator, device=generator.device)
    chosen = lots == lots.amax(-1, keepdim=True)
    place = uniform((num_worlds, 1, 2), -_NEAR, _NEAR, generator) + constant(LEFT_BIN, poses)
    height = torch.full_like(place[..., :1], _LAYERS[0])
    moved = torch.cat([torch.cat([place, height], -1).expand(-1, len(KINDS), -1), poses[..., 3:]], -1)
    return torch.where(chosen[..., None], moved, poses)


def parked_lid(like: Tensor) -> Tensor:
    """Return the pose of a lid that waits on the table. (7,)"""
    return constant((*_PARKED, 1.0, 0.0, 0.0, 0.0), like)
