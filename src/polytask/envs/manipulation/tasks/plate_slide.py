"""Slide a plate away from the robot into a cage."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, from_above
from polytask.envs.manipulation.shared.plate import plate_slots, slides
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05


def place(vector: Tensor) -> Placement:
    """Put the cage at the goal and the plate at its start."""
    goal = vector[:, 3:6]
    return Placement(target=goal, obj_init=vector[:, 0:3], fixtures={"puck_goal": goal}, joints=slides(vector))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward closeness of the fingertips to the plate, combined with that of the plate to the goal."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    near = tolerance(distance(s.obj, s.tcp), 0.0, _RADIUS, distance(s.tcp_init, s.obj_init))
    return torch.where(gap < _RADIUS, 10.0, 8 * hamacher(near, in_place)), gap <= 0.07


def expert(look: Look) -> Tensor:
    """Set the open fingers down on the near edge of the plate and push it towards the cage."""
    hand, edge = look.hand, offset(look.obj, y=-0.055, z=0.03)
    ahead = torch.stack([look.goal[:, 0], torch.full_like(look.openness, 0.9), edge[:, 2]], -1)
    waypoint = from_above(hand, edge, slack=(0.03, 0.04), clearance=0.1, then=ahead)
    return act(hand, waypoint, gain=10.0, effort=-1.0)


TASK = Task(
    name="plate-slide",
    summary="Slide a plate into a cage.",
    success_rule="plate within 7 cm of the goal",
    start=Start((0.0, 0.6, 0.0, -0.1, 0.85, 0.0), (0.0, 0.6, 0.0, 0.1, 0.9, 0.0), place),
    shaped=Stages(bring("plate to the goal", within=0.07), Hold((-0.002, -0.049, 0.057), slack=0.03)),
    scene="plate",
    slots=plate_slots,
    reward=reward,
    expert=expert,
)
