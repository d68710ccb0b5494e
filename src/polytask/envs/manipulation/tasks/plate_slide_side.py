"""Slide a plate sideways into a cage."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.expert import act, from_above
from polytask.envs.manipulation.shared.plate import plate_reward, plate_slots, slides
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Start, Task


def place(vector: Tensor) -> Placement:
    """Put the plate at its start; the goal varies, but the cage does not move."""
    return Placement(target=vector[:, 3:6], obj_init=vector[:, 0:3], joints=slides(vector))


def expert(look: Look) -> Tensor:
    """Set the closed fingers down to the right of the plate and push it left.

    Most goals lie beyond the end of the slide, whose soft stop gives way to a firm push.
    """
    hand, edge = look.hand, offset(look.obj, x=0.07, z=-0.005)
    push = hand[:, 0] + look.goal[:, 0] - look.obj[:, 0]
    along = torch.stack([push, torch.full_like(push, 0.6), edge[:, 2]], -1)
    waypoint = from_above(hand, edge, slack=(0.04, 0.06), clearance=0.1, then=along)
    return act(hand, waypoint, gain=25.0, effort=1.0)


TASK = Task(
    name="plate-slide-side",
    summary="Slide a plate sideways into a cage.",
    success_rule="plate within 7 cm of the goal",
    start=Start((0.0, 0.6, 0.0, -0.3, 0.54, 0.0), (0.0, 0.6, 0.0, -0.25, 0.66, 0.0), place),
    shaped=Stages(bring("plate to the goal", within=0.07), Hold((0.068, 0.0, 0.032), slack=0.04, reach=0.04)),
    scene="plate_side",
    slots=plate_slots,
    reward=plate_reward,
    expert=expert,
)
