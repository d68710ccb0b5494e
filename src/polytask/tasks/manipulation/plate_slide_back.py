"""Slide a plate out of a cage, towards the robot."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.tasks.manipulation.expert import act, first_of, offset, planar_gap
from polytask.tasks.manipulation.plate import plate_slots, slide_reward, slides
from polytask.tasks.task import Look, Placement, Task


def place(vector: Tensor) -> Placement:
    """Put the plate before the cage. Rewards take the cage, 10 cm farther, for the plate's start."""
    return Placement(target=vector[:, 3:6], obj_init=vector[:, 0:3], joints=slides(vector, y=0.15))


def expert(look: Look) -> Tensor:
    """Press the open fingers on the near edge of the plate and drag it, first back, then across to the goals."""
    hand, edge = look.hand, offset(look.obj, y=-0.065, z=0.025)
    y = hand[:, 1]
    row = torch.full_like(y, 0.55)
    waypoint = first_of(
        (planar_gap(hand, edge) > 0.01, offset(edge, z=0.1)),
        ((hand[:, 2] - edge[:, 2]).abs() > 0.04, edge),
        (y > 0.7, offset(hand, y=-0.1)),
        (y > 0.6, torch.stack([torch.full_like(y, 0.15), row, hand[:, 2]], -1)),
        otherwise=torch.stack([hand[:, 0] - 0.1, row, hand[:, 2]], -1),
    )
    return act(hand, waypoint, gain=10.0, effort=-1.0)


TASK = Task(
    name="plate-slide-back",
    scene="plate",
    low=(0.0, 0.85, 0.0, -0.1, 0.6, 0.015),
    high=(0.0, 0.85, 0.0, 0.1, 0.6, 0.015),
    place=place,
    slots=plate_slots,
    reward=slide_reward,
    expert=expert,
    summary="Slide a plate out of a cage.",
    success_rule="plate within 7 cm of the goal",
)
