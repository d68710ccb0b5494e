"""Building blocks of the scripted experts: proportional moves towards the waypoints of stages.

An expert is a function of the observation only. It defines a waypoint and a gripper effort for each stage, and uses the
first stage whose condition holds, for all worlds at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.points import offset, planar_gap


def first_of(*stages: tuple[Tensor, Tensor], otherwise: Tensor) -> Tensor:
    """Return, per world, the value of the first stage (condition (N,), value (N, ...)) whose condition holds."""
    result = otherwise
    for condition, value in reversed(stages):
        shaped = condition.view(-1, *([1] * (value.dim() - 1))) if value.dim() else condition
        result = torch.where(shaped, value, result)
    return result


def from_above(hand: Tensor, point: Tensor, slack: tuple[float, float], clearance: float, then: Tensor) -> Tensor:
    """Return the waypoint of a hand that moves above a point, goes down to it, and then moves on. (N, 3)

    Args:
        hand: Hand position. (N, 3)
        point: Position of the hand at the object. (N, 3)
        slack: Distances from the point, horizontal and vertical, within which the hand may go down and move on.
        clearance: Height above the point at which the hand approaches.
        then: Where the hand moves on to. (N, 3)
    """
    aside, off = planar_gap(hand, point) > slack[0], (hand[:, 2] - point[:, 2]).abs() > slack[1]
    return first_of((aside, offset(point, z=clearance)), (off, point), otherwise=then)


def act(hand: Tensor, waypoint: Tensor, gain: float, effort: float | Tensor) -> Tensor:
    """Return the action that moves the hand proportionally towards a waypoint. (N, 4)

    Args:
        hand: Hand position. (N, 3)
        waypoint: Position to move to. (N, 3)
        gain: Action per metre of error; the result is clipped to [-1, 1].
        effort: Gripper effort, positive closes.
    """
    move = (gain * (waypoint - hand)).clamp(-1.0, 1.0)
    grip = effort if isinstance(effort, Tensor) else torch.full_like(hand[:, 0], effort)
    return torch.cat([move, grip[:, None]], -1)
