"""Pull a door open by its handle."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.door import HIGH, LOW, door_slots, place_door
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.funnel import above_funnel, funnel
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.sim.geometry import distance

_HOLD = Hold((-0.005, 0.04, -0.01), away=0.13, slack=0.035, reach=0.06, depth=0.04)


def place(vector: Tensor) -> Placement:
    """Place the closed door."""
    return place_door(vector, goal=(-0.3, -0.45), angle=0.0)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward a closed hand at the front of the handle, and the angle of the door."""
    front = offset(s.obj, x=-0.05)
    floor = funnel(planar_gap(s.hand, front), 0.12, steepness=0.04, level=0.4)
    above = above_funnel(s.hand, floor, floor / 2)
    ready = hamacher(above, tolerance(distance(s.hand, offset(front, 0.05, 0.03, -0.01)), 0.0, 0.06, 0.5))
    angle = s.scene.joint("doorjoint")  # 0 is closed, negative opens
    opened = 0.2 * (angle < -math.pi / 90) + 0.8 * tolerance(2 * math.pi / 3 + angle, 0.0, 0.5, math.pi / 3)
    success = (s.obj[:, 0] - s.target[:, 0]).abs() <= 0.08
    dense = 2 * hamacher(ready, (s.effort + 1) / 2) + 8 * opened
    return torch.where(success, 10.0, dense), success


def expert(look: Look) -> Tensor:
    """Move down between door and handle with a closed hand and pull until the handle is at the goal."""
    behind = offset(look.obj, x=0.01, y=0.05)
    gap, is_high = planar_gap(look.hand, behind), look.hand[:, 2] - look.obj[:, 2] > 0.04
    waypoint = first_of(
        ((is_high & (gap > 0.03)) | (gap > 0.12), offset(behind, z=0.13)),
        (is_high, behind),
        (look.obj[:, 0] - look.goal[:, 0] < 0.03, look.hand),
        otherwise=offset(look.obj, x=-0.05),
    )
    return act(look.hand, waypoint, gain=25.0, effort=1.0)


TASK = Task(
    name="door-open",
    summary="Open the door by its handle.",
    success_rule="handle within 8 cm of the goal along x",
    start=Start(LOW, HIGH, place),
    shaped=Stages(bring("pull the door open", within=0.08), _HOLD),
    scene="door",
    slots=door_slots,
    reward=reward,
    expert=expert,
)
