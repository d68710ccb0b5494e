"""Carry a puck over a wall to a point in space."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.shared.puck import WALL_START
from polytask.envs.manipulation.shared.wall import near_wall
from polytask.envs.manipulation.stages import Hold, Stages, carry_over
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05
_CAGE = Cage(radius=0.015, pad=0.05, xz=0.005)
_HOLD = Hold((0.0, 0.0, 0.039), closed=0.6, empty=0.4)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping, then reaching a waypoint above the wall, then closeness to the goal behind it."""
    o, gap = s.obj, distance(s.obj, s.target)
    # The waypoint is straight in front of the goal; height errors count three times.
    over_wall = s.target * s.constant(1.0, 0.0, 0.0) + s.constant(0.0, 0.77, 0.25)
    stretch = s.constant(1.0, 1.0, 3.0)
    margin = distance(s.obj_init, over_wall, stretch)
    lifted = tolerance(distance(o, over_wall, stretch), 0.0, _RADIUS, margin)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    base = hamacher(cage(s, o, _CAGE), lifted)
    held = (distance(o, s.tcp) < 0.02) & (s.openness > 0) & (o[:, 2] - 0.015 > s.obj_init[:, 2])
    bonus = torch.where(o[:, 1] > 0.75, 5 + 3 * in_place, 1 + 4 * lifted)
    return torch.where(gap < _RADIUS, 10.0, base + held * bonus), gap <= 0.07


def expert(look: Look) -> Tensor:
    """Grip the puck, rise in front of the wall, cross it and go down to the goal."""
    hand, goal, puck = look.hand, offset(look.goal, z=0.03), offset(look.obj, x=-0.005)
    gap, over = planar_gap(hand, puck), hand[:, 2] - look.obj[:, 2]
    waypoint = first_of(
        (gap > 0.015, offset(puck, z=0.1)),
        ((over.abs() > 0.04) & (puck[:, 2] < 0.03), offset(puck, z=0.03)),
        (near_wall(hand, -0.15, 0.35, 0.25), offset(hand, z=1.0)),
        (near_wall(hand, -0.15, 0.35, 0.35), at_height(goal, hand[:, 2])),
        otherwise=goal,
    )
    away = (planar_gap(hand, look.obj) > 0.015) | (over.abs() > 0.1)
    return act(hand, waypoint, gain=10.0, effort=torch.where(away, 0.0, 0.9))


TASK = Task(
    name="pick-place-wall",
    summary="Pick a puck up and bring it to a goal behind a wall.",
    success_rule="puck within 7 cm of the goal",
    start=WALL_START,
    shaped=Stages(carry_over("puck to the goal", level=0.16, hole=0.06, within=0.07), _HOLD),
    scene="puck_wall",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
