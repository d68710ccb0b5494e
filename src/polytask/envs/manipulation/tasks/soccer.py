"""Kick a ball into a goal."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import LiveCage, live_cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Slots, Start, Task
from polytask.sim.geometry import distance, wxyz_to_xyzw
from polytask.sim.view import SceneView

_RADIUS = 0.07
_POST = 0.1  # distance of the goal's sides from its middle, and of its line from the target
_FINGERS = LiveCage(radius=0.013, pad=0.05, xz=0.005, threshold=0.95, grip=0.01)
_GRASP = Grasp(effort=0.1, closed=0.7)  # the ball is 5.2 cm wide, the pads 1.2 cm


def place(vector: Tensor) -> Placement:
    """Put the ball and the goal at the vector's points."""
    ball, goal = vector[:, 0:3], vector[:, 3:6]
    return Placement(target=goal, obj_init=ball, fixtures={"goal_whole": goal}, joints={"soccer_ball": ball})


def slots(scene: SceneView) -> Slots:
    """Return the ball and its orientation, scalar last."""
    return Slots(obj=scene.body("soccer_ball"), obj_quat=wxyz_to_xyzw(scene.body_quat("soccer_ball")))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the ball and its closeness to the goal, less for a ball that misses to the side."""
    scale = s.constant(3.0, 1.0, 1.0)
    gap = distance(s.obj, s.target, scale)
    # As in the original, the margin grows with the distance that the ball has moved: at the start this term is 0.
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj, s.obj_init, scale))
    line = s.target[:, 1] - _POST
    past = s.obj[:, 1] - line
    wide = (past > 0) & ((s.obj[:, 0] - s.target[:, 0]).abs() > _POST)
    in_place = torch.where(wide, (in_place - 2 * past / (1 - line)).clamp(0.0, 1.0), in_place)
    paid = 3 * live_cage(s, s.obj, _FINGERS) + 6.5 * in_place
    return paid.masked_fill(gap < _RADIUS, 10.0), distance(s.obj, s.target) <= _RADIUS


def expert(look: Look) -> Tensor:
    """Carry the ball in front of the goal, release it, and kick it in from behind."""
    grip, before = offset(look.obj, z=0.03), at_height(offset(look.goal, y=-0.16), 0.056)
    # Release only a ball that is well placed and at rest: a ball drifts on for 20 steps before the kick.
    held = (planar_gap(look.hand, look.obj) < 0.03) & (look.hand[:, 2] < 0.08) & (look.openness < 0.65)
    drift = (look.obj[:, 0] - look.previous_obj[:, 0]).abs() * 20
    aligned = (look.obj[:, 0] - look.goal[:, 0]).abs() + drift < torch.where(held, 0.02, 0.04)
    action = torch.where(aligned[:, None], _kick(look), grasp_and_carry(look, grip, before, _GRASP))
    scored = (distance(look.obj, look.goal) < 0.065) | (look.obj[:, 1] > look.goal[:, 1] - 0.04)
    return action * ~scored[:, None]


def _kick(look: Look) -> Tensor:
    """Move behind the ball from above, and push it straight ahead."""
    start = at_height(offset(look.obj, y=-0.06), 0.03)
    gap = look.obj - look.hand
    on_ball = planar_gap(look.hand, look.obj) < 0.05
    kick = (gap[:, 1] > 0.02) & (gap[:, 0].abs() < 0.02) & (look.hand[:, 2] < 0.06)
    away = planar_gap(look.hand, start) > 0.02
    low = on_ball & (look.hand[:, 2] < 0.1)
    waypoint = first_of(
        (low & ~kick & (look.openness < 0.8), look.hand),
        (kick, at_height(offset(look.obj, y=0.1), 0.03)),
        (low, offset(look.hand, z=0.1)),
        (away, at_height(start, 0.12)),
        otherwise=start,
    )
    return act(look.hand, waypoint, gain=16.0, effort=torch.where(on_ball & ~kick, -1.0, 1.0))


TASK = Task(
    name="soccer",
    summary="Push a ball into a goal.",
    success_rule="ball within 7 cm of the goal's middle",
    start=Start((-0.1, 0.6, 0.03, -0.1, 0.8, 0.0), (0.1, 0.7, 0.03, 0.1, 0.9, 0.0), place, Separation(0.15)),
    shaped=Stages(
        bring("ball into the goal", within=_RADIUS), Hold((0.0, -0.03, 0.03), slack=0.04, reach=0.065, depth=0.09)
    ),
    scene="soccer",
    slots=slots,
    reward=reward,
    expert=expert,
)
