"""Building blocks of the scripted experts: proportional moves towards the waypoints of stages.

An expert is a function of the observation only. It defines a waypoint and a gripper effort for each stage, and uses the
first stage whose condition holds, for all worlds at once.
"""

from __future__ import annotations

import torch
from torch import Tensor


def first_of(*stages: tuple[Tensor, Tensor], otherwise: Tensor) -> Tensor:
    """Return, per world, the value of the first stage (condition (N,), value (N, ...)) whose condition holds."""
    result = otherwise
    for condition, value in reversed(stages):
        shaped = condition.view(-1, *([1] * (value.dim() - 1))) if value.dim() else condition
        result = torch.where(shaped, value, result)
    return result


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
