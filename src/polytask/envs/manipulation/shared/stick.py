"""What the tasks with a stick and a thermos share."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.expert import act, at_height, first_of, offset, planar_gap
from polytask.envs.manipulation.task import Look, Placement
from polytask.sim.view import constant

_REST = 0.02  # height of the stick's centre on the table
_THERMOS = (0.2, 0.6, 0.0)  # where the thermos's slides are zero; rewards call this the initial object position


def stick_start(vector: Tensor) -> Tensor:
    """Return where the stick lies at the start of an episode, (N, 3)."""
    return at_height(vector[:, 0:3], _REST)


def place_stick(vector: Tensor, height: float, y: float) -> Placement:
    """Put the stick where the vector says, the goal at `height` and the thermos `y` away from its zero."""
    first = vector[:, 0]
    return Placement(
        target=at_height(vector[:, 3:6], height),
        obj_init=constant(_THERMOS, vector).expand(len(vector), 3),
        joints={
            "stick": stick_start(vector),
            "obj_slidex": torch.zeros_like(first),
            "obj_slidey": torch.full_like(first, y),
        },
    )


def stick_expert(look: Look, grip: float, aim: Tensor, joined: tuple[Tensor, Tensor], gain: float) -> Tensor:
    """Grip the stick, bring it level with the thermos, move it there and go on as `joined` says.

    Args:
        look: Observation.
        grip: Where along the stick to grip it, from its centre.
        aim: Where the hand holds the stick when it meets the thermos. (N, 3)
        joined: Whether the stick has met the thermos (N,) and where the hand goes then (N, 3).
        gain: Gain of the moves.
    """
    hand, stick = look.hand, offset(look.obj, x=grip, z=0.03)
    gap, over = planar_gap(hand, stick), (hand[:, 2] - stick[:, 2]).abs()
    sideways = torch.stack([stick[:, 0], aim[:, 1], stick[:, 2]], -1)
    upwards = torch.stack([stick[:, 0], aim[:, 1], aim[:, 2]], -1)
    waypoint = first_of(
        (gap > 0.02, offset(stick, z=0.1)),
        (over > 0.02, stick),
        joined,
        ((stick[:, 1] - aim[:, 1]).abs() > 0.02, sideways),
        ((stick[:, 2] - aim[:, 2]).abs() > 0.02, upwards),
        otherwise=aim,
    )
    away = (gap > 0.02) | (over > 0.1)
    return act(hand, waypoint, gain=gain, effort=torch.where(away, -1.0, 0.7))
