"""Put the lid on a box."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.funnel import above_funnel, funnel
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.shared.straightness import straightness
from polytask.envs.manipulation.stages import Hold, Stages, carry_over, goal_at
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_RADIUS = 0.08
_GRIP = 0.085  # height of the hand over the lid when the fingers hold its handle
_ON_BOX = 0.08  # height of the lid when it lies on the box
_HOLD = Hold((0.0, -0.003, 0.082), closed=0.6, empty=0.15)


def place(vector: Tensor) -> Placement:
    """Place the lid, and the box under the goal; the vector's first height is ignored."""
    lid, goal = at_height(vector[:, 0:3], 0.02), vector[:, 3:6]
    return Placement(target=goal, obj_init=lid, fixtures={"boxbody": at_height(goal, 0.0)}, joints={"boxbodytop": lid})


def slots(scene: SceneView) -> Slots:
    """Return the position and orientation of the lid."""
    return Slots(obj=scene.body("top_link"), obj_quat=scene.body_quat("top_link"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward closing the fingers near the lid's handle and carrying the lid to the box, as long as it is level."""
    lid = offset(s.obj, z=0.02)
    floor = funnel(planar_gap(s.hand, lid), 0.02, steepness=0.04, level=0.4)
    above = above_funnel(s.hand, floor, floor / 2)
    ready = hamacher(above, tolerance(distance(s.hand, lid), 0.0, 0.02, 0.5))
    scale = s.constant(1.0, 1.0, 3.0)
    carried = tolerance(distance(scale * s.target, scale * lid), 0.0, 0.05, 0.25)
    closing = (s.effort.clamp(-1.0, 1.0) + 1) / 2
    dense = 2 * hamacher(closing, ready) + 8 * (0.2 * (lid[:, 2] > 0.04) + 0.8 * carried)
    success = distance(s.obj, s.target) < _RADIUS
    # A tilted lid reduces even the reward of success.
    return dense.masked_fill(success, 10.0) * straightness(s.scene.body_quat("top_link"), 0.2), success


def expert(look: Look) -> Tensor:
    """Grip the handle from above, lift, carry the lid over the box and lower it."""
    hand, grip = look.hand, offset(look.obj, z=_GRIP)
    beside = planar_gap(hand, grip) > 0.02
    high = hand[:, 2] - grip[:, 2] > 0.02
    over_box = planar_gap(look.obj, look.goal) < 0.02
    waypoint = first_of(
        (beside, offset(grip, z=0.1)),
        (high | (look.openness > 0.6), grip),
        (over_box, at_height(look.goal, _ON_BOX + _GRIP)),
        (look.obj[:, 2] < 0.1, at_height(hand, 0.12 + _GRIP)),
        otherwise=at_height(look.goal, 0.12 + _GRIP),
    )
    return act(hand, waypoint, gain=25.0, effort=torch.where(beside | high, -1.0, 1.0))


TASK = Task(
    name="box-close",
    summary="Put the lid on a box.",
    success_rule="lid within 8 cm of the goal above the box",
    start=Start(
        (-0.05, 0.5, 0.02, -0.1, 0.7, 0.133),
        (0.05, 0.55, 0.02, 0.1, 0.8, 0.133),
        place,
        Separation(0.25, candidates=48),
    ),
    shaped=Stages(carry_over("put it on the box", level=0.1, hole=0.04, within=0.1, goal=goal_at(_ON_BOX)), _HOLD),
    scene="box",
    slots=slots,
    reward=reward,
    expert=expert,
)
