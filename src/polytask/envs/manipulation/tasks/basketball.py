"""Hold a ball above a hoop."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, carry_over, goal_at
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_BALL = Cage(radius=0.025, pad=0.06, xz=0.005, density="high")
_RADIUS = 0.08
_HEIGHT = 0.3  # of the point that the ball must reach, 5 cm above the hoop
_HOLD = Hold((0.003, 0.0, 0.018), closed=0.75, empty=0.5, away=0.15)


def place(vector: Tensor) -> Placement:
    """Put the ball on the table and the stand behind it."""
    ball, stand = at_height(vector[:, 0:3], 0.03), vector[:, 3:6]
    hoop = offset(stand, y=-0.083, z=0.25)
    return Placement(target=hoop, obj_init=ball, fixtures={"basket_goal": stand}, joints={"bsktball": ball})


def slots(scene: SceneView) -> Slots:
    """Return the position and orientation of the ball."""
    return Slots(obj=scene.body("bsktball"), obj_quat=scene.body_quat("bsktball"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the ball and, once it is held, bringing it above the hoop; height errors count double."""
    scale = s.constant(1.0, 1.0, 2.0)
    above_hoop = scale * at_height(s.target, _HEIGHT)
    gap = distance(scale * s.obj, above_hoop)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(scale * s.obj_init, above_hoop))
    lifted = s.obj[:, 2] - 0.01 > s.obj_init[:, 2]
    held = (distance(s.obj, s.tcp) < 0.035) & (s.openness > 0) & lifted
    grasp = cage(s, s.obj, _BALL).masked_fill(held, 1.0)
    dense = hamacher(grasp, in_place) + held * (1 + 5 * in_place)
    return dense.masked_fill(gap < _RADIUS, 10.0), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Grip the ball from above, or from the side where the hoop is in the way, lift it and carry it over the hoop."""
    hand, ball = look.hand, offset(look.obj, z=0.01)
    gap = planar_gap(hand, ball)
    low = hand[:, 2] - ball[:, 2] < 0.03
    gripped = (gap < 0.03) & low & (look.openness < 0.85)
    # Under the hoop the fingers slide in along x, away from the hoop's middle, and drag the ball out before lifting it.
    under = (planar_gap(ball, look.goal) < 0.13) & (ball[:, 2] < 0.2)
    aside = torch.copysign(torch.full_like(gap, 0.12), ball[:, 0] - look.goal[:, 0])
    side = torch.stack([ball[:, 0] + aside, ball[:, 1], ball[:, 2]], -1)
    sliding = low & ((hand[:, 1] - ball[:, 1]).abs() < 0.02)
    waypoint = first_of(
        (under & gripped, offset(hand, y=-0.1)),
        (under & sliding, ball),
        (under & (planar_gap(hand, side) > 0.02), at_height(side, 0.25)),
        (under, side),
        (gap > 0.04, offset(ball, z=0.3)),
        (~gripped, ball),
        (ball[:, 2] < 0.31, at_height(hand, 0.36)),
        otherwise=at_height(look.goal, 0.34),
    )
    return act(hand, waypoint, gain=25.0, effort=torch.where((gap > 0.03) | ~low, -1.0, 0.6))


TASK = Task(
    name="basketball",
    summary="Bring a ball above a hoop.",
    success_rule="ball within 8 cm of a point 5 cm above the hoop, height errors doubled",
    start=Start((-0.1, 0.6, 0.0299, -0.1, 0.85, 0.0), (0.1, 0.7, 0.0301, 0.1, 0.9000001, 0.0), place, Separation(0.15)),
    shaped=Stages(
        carry_over("bring it over the hoop", level=0.27, hole=0.0, within=0.075, goal=goal_at(_HEIGHT)), _HOLD
    ),
    scene="basketball",
    slots=slots,
    reward=reward,
    expert=expert,
)
