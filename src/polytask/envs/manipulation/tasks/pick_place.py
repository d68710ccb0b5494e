"""Pick up a puck and carry it to a point in space."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import LiveCage, live_cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.shared.puck import FREE_START
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05  # distance with full reward; the success test is less strict
_SUCCESS_RADIUS = 0.07
_CAGE = LiveCage(radius=0.015, pad=0.05, xz=0.005)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the puck near the goal, and more once it is held and off the table."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    is_lifted = s.obj[:, 2] - 0.01 > s.obj_init[:, 2]
    is_held = (distance(s.obj, s.tcp) < 0.02) & (s.openness > 0) & is_lifted
    dense = hamacher(live_cage(s, s.obj, _CAGE), in_place) + is_held * (1 + 5 * in_place)
    return torch.where(gap < _RADIUS, 10.0, dense), gap <= _SUCCESS_RADIUS


def expert(look: Look) -> Tensor:
    """Move above the puck, go down, wait for the fingers to close, carry it to the goal."""
    puck = offset(look.obj, x=-0.005)
    is_high = (look.hand[:, 2] - puck[:, 2]).abs() > 0.05
    waypoint = first_of(
        (planar_gap(look.hand, puck) > 0.02, offset(puck, z=0.1)),
        (is_high & (puck[:, 2] < 0.04), offset(puck, z=0.03)),
        (look.openness > 0.73, look.hand),
        otherwise=look.goal,
    )
    effort = torch.where(distance(look.hand, look.obj) < 0.07, 1.0, 0.0)
    return act(look.hand, waypoint, gain=10.0, effort=effort)


TASK = Task(
    name="pick-place",
    summary="Pick up the puck and carry it to a goal in the air.",
    success_rule="puck within 7 cm of the goal",
    start=FREE_START,
    shaped=Stages(bring("puck to the goal", within=_SUCCESS_RADIUS), Hold((0.0, 0.001, 0.037), closed=0.65, empty=0.4)),
    scene="puck",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
