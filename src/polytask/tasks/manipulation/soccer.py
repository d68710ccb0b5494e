"""Kick a ball into a goal."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.rewards import distance, tolerance
from polytask.tasks.manipulation.caging import LiveCage, live_cage
from polytask.tasks.manipulation.expert import act, at_height, first_of, offset, planar_gap
from polytask.tasks.rotations import wxyz_to_xyzw
from polytask.tasks.state import SceneView, State
from polytask.tasks.task import Look, Placement, Separation, Slots, Task

_RADIUS = 0.07
_POST = 0.1  # distance of the goal's sides from its middle, and of its line from the target
_FINGERS = LiveCage(radius=0.013, pad=0.05, xz=0.005, threshold=0.95, grip=0.01)


def place(vector: Tensor) -> Placement:
    """Put the ball and the goal where the vector says."""
    ball, goal = vector[:, 0:3], vector[:, 3:6]
    return Placement(target=goal, obj_init=ball, fixtures={"goal_whole": goal}, joints={"soccer_ball": ball})


def slots(scene: SceneView) -> Slots:
    """Show the ball and its orientation, scalar last."""
    return Slots(obj=scene.body("soccer_ball"), obj_quat=wxyz_to_xyzw(scene.body_quat("soccer_ball")))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Pay for caging the ball and for its way to the goal, less for a ball that misses to the side."""
    scale = s.constant(3.0, 1.0, 1.0)
    gap = torch.linalg.vector_norm(scale * (s.obj - s.target), dim=-1)
    # The margin grows with the way the ball has gone, so that nothing is paid at the start: as in the original.
    in_place = tolerance(gap, 0.0, _RADIUS, torch.linalg.vector_norm(scale * (s.obj - s.obj_init), dim=-1))
    line = s.target[:, 1] - _POST
    past = s.obj[:, 1] - line
    wide = (past > 0) & ((s.obj[:, 0] - s.target[:, 0]).abs() > _POST)
    in_place = torch.where(wide, (in_place - 2 * past / (1 - line)).clamp(0.0, 1.0), in_place)
    paid = 3 * live_cage(s, s.obj, _FINGERS) + 6.5 * in_place
    return paid.masked_fill(gap < _RADIUS, 10.0), distance(s.obj, s.target) <= _RADIUS


def expert(look: Look) -> Tensor:
    """Kick the ball from behind, on the line through ball and goal."""
    way = look.goal[:, :2] - look.obj[:, :2]
    way = way / torch.linalg.vector_norm(way, dim=-1, keepdim=True)  # (N, 2) direction of the kick
    behind = look.obj[:, :2] - look.hand[:, :2]
    along = (behind * way).sum(-1)
    across = (behind[:, 0] * way[:, 1] - behind[:, 1] * way[:, 0]).abs()
    step = torch.cat([way, torch.zeros_like(way[:, :1])], -1)
    low = look.hand[:, 2] < 0.06
    kick = low & (along > 0.0) & (across < 0.015)
    start = at_height(look.obj - 0.07 * step, 0.03)
    away = planar_gap(look.hand, start) > 0.015
    waypoint = first_of((distance(look.obj, look.goal) < 0.06, look.hand), (kick, at_height(look.hand + 0.1 * step, 0.03)), (away, at_height(start, 0.12)), otherwise=start)
    return act(look.hand, waypoint, gain=10.0, effort=1.0)


TASK = Task(
    name="soccer",
    scene="soccer",
    low=(-0.1, 0.6, 0.03, -0.1, 0.8, 0.0),
    high=(0.1, 0.7, 0.03, 0.1, 0.9, 0.0),
    place=place,
    slots=slots,
    reward=reward,
    expert=expert,
    summary="Push a ball into a goal.",
    success_rule="ball within 7 cm of the goal's middle",
    separation=Separation((0, 2), (3, 5), 0.15),
)
