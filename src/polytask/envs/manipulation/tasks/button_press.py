"""Press a button on the front of a box."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher
from polytask.envs.manipulation.shared.button import closeness, front_slots, half_closed, place_front, pressed
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Start, Task
from polytask.sim.geometry import distance


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward an open hand at the button and, near the button, pressing it."""
    remaining = (s.target[:, 1] - s.obj[:, 1]).abs()
    tip_gap = distance(s.obj, s.tcp)
    dense = 2 * hamacher(s.openness, closeness(s, tip_gap, 0.05)) + 8 * (tip_gap <= 0.05) * pressed(remaining)
    return dense, remaining <= 0.02


def expert(look: Look) -> Tensor:
    """Line up in front of the button with half-closed fingers, then push with them."""
    button = offset(look.obj, z=0.03)
    is_off = ((look.hand - button).abs() > 0.02)[:, ::2].any(-1)
    step_back = torch.stack([button[:, 0], look.hand[:, 1].clamp(max=0.6), button[:, 2]], -1)
    waypoint = first_of((is_off, step_back), otherwise=offset(button, y=0.02))
    return act(look.hand, waypoint, gain=25.0, effort=half_closed(look))


TASK = Task(
    name="button-press",
    summary="Press the button on the front of the box.",
    success_rule="button's face within 2 cm of the mouth of the box",
    start=Start((-0.1, 0.85, 0.115), (0.1, 0.9, 0.115), place_front, hand=HAND_BACK),
    shaped=Stages(bring("press the button", within=0.02), Hold((0.0, -0.037, 0.03), side="the front")),
    scene="button",
    slots=front_slots,
    reward=reward,
    expert=expert,
)
