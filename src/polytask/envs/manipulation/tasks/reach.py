"""Bring the fingertips to a point in space."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.expert import act
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.puck import FREE_START
from polytask.envs.manipulation.stages import Stages, bring, the_fingertips
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward closeness of the tool centre to the goal."""
    gap = distance(s.tcp, s.target)
    # The margin is measured from the nominal hand position, although the tool centre is 4.5 cm below it.
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.constant(0.0, 0.6, 0.2), s.target))
    return 10 * in_place, gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Go straight to the goal."""
    return act(look.hand, look.goal, gain=5.0, effort=torch.zeros_like(look.openness))


TASK = Task(
    name="reach",
    summary="Reach a goal position in space.",
    success_rule="tool centre within 5 cm of the goal",
    start=FREE_START,
    shaped=Stages(bring("fingertips to the goal", within=_RADIUS, point=the_fingertips)),
    scene="puck",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
