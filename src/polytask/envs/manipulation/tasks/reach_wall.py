"""Bring the fingertips to a point in space behind a wall."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.expert import act
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.shared.puck import WALL_START
from polytask.envs.manipulation.shared.wall import near_wall
from polytask.envs.manipulation.task import Look
from polytask.envs.manipulation.tasks import reach


def expert(look: Look) -> Tensor:
    """Rise while the wall is ahead, then move the fingertips, 4.5 cm below the hand, to the goal."""
    rise = near_wall(look.hand, -0.1, 0.3, 0.25)
    waypoint = torch.where(rise[:, None], offset(look.goal, z=1.0), offset(look.goal, z=0.045))
    return act(look.hand, waypoint, gain=5.0, effort=0.0)


TASK = replace(
    reach.TASK,
    name="reach-wall",
    summary="Reach a goal position behind a wall.",
    start=WALL_START,
    scene="reach_wall",
    expert=expert,
)
