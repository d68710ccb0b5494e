"""Push an open door shut."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.door import HIGH, LOW, door_slots, place_door
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import at_height, offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05  # distance with full reward; the success test is less strict
_HAND_INIT = (-0.5, 0.6, 0.2)
_HOLD = Hold((-0.02, 0.2, 0.06), side="the left", slack=0.08, reach=0.2, depth=0.2)


def place(vector: Tensor) -> Placement:
    """Place the door, a quarter turn open."""
    return place_door(vector, goal=(0.2, -0.2), angle=-1.5708)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward closeness of handle and tool centre to the position of the handle on the shut door."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, 0.2 * math.sqrt(2), sigmoid="gaussian")
    margin = distance(s.obj, s.constant(*_HAND_INIT)) + 0.1
    hand_in_place = tolerance(distance(s.tcp, s.target), 0.0, _RADIUS / 4, margin, sigmoid="gaussian")
    return torch.where(gap < _RADIUS, 10.0, 3 * hand_in_place + 6 * in_place), gap <= 0.08


def expert(look: Look) -> Tensor:
    """Move over the top of the door to its outside, go down and push towards the goal."""
    edge = offset(look.obj, 0.05, 0.12, 0.1)
    hand_height = look.hand[:, 2]
    is_inside = look.hand[:, 0] > edge[:, 0]
    waypoint = first_of(
        (is_inside & (hand_height < edge[:, 2] + 0.2), at_height(look.hand, edge[:, 2] + 0.25)),
        (is_inside, at_height(offset(edge, x=-0.02), hand_height)),
        ((hand_height - edge[:, 2]).abs() > 0.04, offset(edge, x=-0.02)),
        otherwise=look.goal,
    )
    return act(look.hand, waypoint, gain=25.0, effort=1.0)


TASK = Task(
    name="door-close",
    summary="Push the open door shut.",
    success_rule="handle within 8 cm of its place on the shut door",
    start=Start(LOW, HIGH, place, hand=_HAND_INIT),
    shaped=Stages(bring("push the door shut", within=0.06), _HOLD),
    scene="door",
    slots=door_slots,
    reward=reward,
    expert=expert,
)
