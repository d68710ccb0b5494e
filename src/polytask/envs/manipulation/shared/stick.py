"""Shared code of the tasks with a stick and a thermos."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.task import Look, Placement
from polytask.sim.view import constant

_REST = 0.02  # height of the stick's centre on the table
_THERMOS = (0.2, 0.6, 0.0)  # position with the thermos's slides at zero; the initial object position of rewards


def stick_start(vector: Tensor) -> Tensor:
    """Return the position of the stick at the start of an episode. (N, 3)"""
    return at_height(vector[:, 0:3], _REST)


def place_stick(vector: Tensor, height: float, y: float) -> Placement:
    """Put the stick and the goal at the vector's points, the goal at `height`, and the thermos `y` from its zero."""
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
    """Grip the stick, align it with the thermos, move it there and then follow `joined`.

    Args:
        look: Observation.
        grip: Position of the grip along the stick, from its centre.
        aim: Position of the hand when the stick meets the thermos. (N, 3)
        joined: Whether the stick has met the thermos (N,), and where the hand then moves (N, 3).
        gain: Action per metre of error.
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
