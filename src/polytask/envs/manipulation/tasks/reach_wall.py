"""Bring the fingertips to a point in space behind a wall."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.expert import act
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw, place_object_and_goal
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.shared.wall import near_wall
from polytask.envs.manipulation.stages import Stages, bring, the_fingertips
from polytask.envs.manipulation.task import Look, Separation, Start, Task
from polytask.envs.manipulation.tasks.reach import reward


def expert(look: Look) -> Tensor:
    """Rise while the wall is ahead, then move the fingertips, 4.5 cm below the hand, to the goal."""
    rise = near_wall(look.hand, -0.1, 0.3, 0.25)
    waypoint = torch.where(rise[:, None], offset(look.goal, z=1.0), offset(look.goal, z=0.045))
    return act(look.hand, waypoint, gain=5.0, effort=0.0)


TASK = Task(
    name="reach-wall",
    summary="Reach a goal position behind a wall.",
    success_rule="tool centre within 5 cm of the goal",
    start=Start(
        (-0.05, 0.6, 0.015, -0.05, 0.85, 0.05),
        (0.05, 0.65, 0.015, 0.05, 0.9, 0.3),
        place_object_and_goal,
        Separation(0.15),
    ),
    shaped=Stages(bring("fingertips to the goal", point=the_fingertips)),
    scene="reach_wall",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
