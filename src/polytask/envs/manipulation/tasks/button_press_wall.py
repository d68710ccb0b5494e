"""Reach over a wall and press a button on the front of a box."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher
from polytask.envs.manipulation.shared.button import closeness, front_slots, place_front, pressed
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import at_height, offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Start, Task
from polytask.sim.geometry import distance

_CLEARANCE = 0.3  # hand height that clears the wall


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward a closed hand that approaches and, once it is near, an open hand and pressing the button."""
    remaining = (s.target[:, 1] - s.obj[:, 1]).abs()
    tip_gap = distance(s.obj, s.tcp)
    far = 2 * hamacher((1 - s.openness) / 2, closeness(s, tip_gap, 0.01))
    near = 2 + 2 * (1 + s.openness) + 4 * pressed(remaining).square()
    return torch.where(tip_gap > 0.07, far, near), remaining <= 0.03


def expert(look: Look) -> Tensor:
    """Move over the wall with a closed hand, go down between wall and button, and push."""
    button = offset(look.obj, z=0.06)
    gap = button - look.hand
    is_beside, is_before, is_above = gap[:, 0].abs() > 0.02, gap[:, 1] > 0.05, gap[:, 2] < -0.02
    sideways = torch.stack([button[:, 0], look.hand[:, 1], torch.full_like(gap[:, 2], _CLEARANCE)], -1)
    waypoint = first_of(
        (is_beside, sideways),
        (is_before, at_height(offset(button, y=-0.03), _CLEARANCE)),
        (is_above, offset(button, y=-0.03)),
        otherwise=offset(button, y=0.02),
    )
    return act(look.hand, waypoint, gain=15.0, effort=1.0)


TASK = Task(
    name="button-press-wall",
    summary="Reach over a wall and press the button on the front of the box.",
    success_rule="button's face within 3 cm of the mouth of the box",
    start=Start((-0.05, 0.85, 0.1149), (0.05, 0.9, 0.1151), place_front, hand=HAND_BACK),
    shaped=Stages(bring("press the button", within=0.03), Hold((0.0, -0.028, 0.07), away=0.2)),
    scene="button_wall",
    slots=front_slots,
    reward=reward,
    expert=expert,
)
