"""Push a puck around a wall to a goal on the table."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.shared.puck import CAGE, place_on_table
from polytask.envs.manipulation.stages import Hold, Leg, Stages
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Separation, Start, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05
_PASSAGE, _BACK = -0.08, 0.75  # x left of the wall, and y behind it


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping, then reaching a waypoint beside the wall, then closeness to the goal behind it."""
    o, gap = s.obj, distance(s.obj, s.target)
    beside = o * s.constant(0.0, 0.0, 1.0) + s.constant(-0.05, 0.77, 0.0)  # its height is that of the puck
    stretch = s.constant(3.0, 1.0, 1.0)
    margin = distance(s.obj_init, beside, stretch)
    passed = tolerance(distance(o, beside, stretch), 0.0, _RADIUS, margin)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    held = (distance(o, s.tcp) < 0.02) & (s.openness > 0)
    bonus = torch.where(o[:, 1] > 0.75, 5 + 3 * in_place, 1 + 4 * passed)
    return torch.where(gap < _RADIUS, 10.0, 2 * cage(s, o, CAGE) + held * bonus), gap <= 0.07


def expert(look: Look) -> Tensor:
    """Grip the puck, drag it left until it clears the wall, then past the wall and to the goal."""
    hand, puck = look.hand, offset(look.obj, x=-0.005)
    x, y = puck[:, 0], puck[:, 1]
    gap, over = planar_gap(hand, puck), (hand[:, 2] - look.obj[:, 2]).abs()
    waypoint = first_of(
        (gap > 0.02, offset(puck, z=0.2)),
        (over > 0.04, offset(puck, z=0.03)),
        ((x >= -0.1) & (x <= 0.3) & (y >= 0.65) & (y <= 0.75), offset(hand, x=-1.0)),
        ((x > -0.15) & (x < 0.05) & (y >= 0.695) & (y <= 0.755), offset(hand, y=1.0)),
        otherwise=offset(look.goal, z=0.03),
    )
    away = (planar_gap(hand, look.obj) > 0.02) | (over > 0.1)
    return act(hand, waypoint, gain=10.0, effort=torch.where(away, 0.0, 0.6))


def _right_of_passage(s: State) -> Tensor:
    """Return how far the puck must still move left until it can pass the wall. (N,)"""
    return (s.obj[:, 0] - _PASSAGE).clamp(min=0.0)


def _to_goal(s: State) -> Tensor:
    return distance(s.obj, s.target)


def _is_past(s: State) -> Tensor:
    return (_right_of_passage(s) < 0.02) | (s.obj[:, 1] > _BACK)


TASK = Task(
    name="push-wall",
    summary="Push a puck around a wall to a goal.",
    success_rule="puck within 7 cm of the goal",
    start=Start(
        (-0.05, 0.6, 0.015, -0.05, 0.85, 0.01), (0.05, 0.65, 0.015, 0.05, 0.9, 0.02), place_on_table, Separation(0.15)
    ),
    shaped=Stages(
        (
            Leg("puck to the left of the wall", _right_of_passage),
            Leg("puck to the goal", _to_goal, _is_past, within=0.07),
        ),
        Hold((0.003, 0.002, 0.034), closed=0.65, empty=0.4),
    ),
    scene="puck_wall",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
