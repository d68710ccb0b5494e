"""Turn a dial by pushing its grip sideways."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Leg, Stages
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_RADIUS = 0.07
_POINTER = 0.05  # distance of the observed point from the dial's axis
_TURNED = 1.4  # angle of a turned dial, either way


def place(vector: Tensor) -> Placement:
    """Place the dial; its angle stays zero, as in the settled scene."""
    return Placement(target=offset(vector, y=0.03, z=0.03), obj_init=vector, fixtures={"dial": vector})


def slots(scene: SceneView) -> Slots:
    """Return a point on the dial's edge that turns with it, at the height of its base."""
    angle = scene.joint("knob_Joint_1")
    pointer = torch.stack([angle.sin(), -angle.cos(), torch.zeros_like(angle)], -1)
    return Slots(obj=scene.body("dial") + _POINTER * pointer, obj_quat=scene.body_quat("dial"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward pushing beside the grip with closing fingers, combined with the turn."""
    push, push_init = offset(s.obj, x=0.05, y=0.02, z=0.09), offset(s.obj_init, x=0.05, y=-0.03, z=0.09)
    gap = distance(s.obj, s.target)
    # The margin is measured from the first push point, not from the pointer: it is not the initial value of `gap`.
    in_place = tolerance(gap, 0.0, _RADIUS, (distance(push_init, s.target) - _RADIUS).abs())
    margin = (distance(push_init, s.tcp_init) - 0.005).abs()
    near = tolerance(distance(push, s.tcp), 0.0, 0.005, margin, sigmoid="gaussian")
    reach = hamacher(near, s.effort.clamp(0.0, 1.0))
    return 10 * hamacher(reach, in_place), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Move down beside the grip with closed fingers and push it round."""
    push = offset(look.obj, x=0.05, y=0.02, z=0.09)
    waypoint = first_of(
        (planar_gap(look.hand, push) > 0.02, at_height(push, 0.2)),
        ((look.hand[:, 2] - push[:, 2]).abs() > 0.02, push),
        otherwise=offset(push, x=-0.05, y=0.005),
    )
    return act(look.hand, waypoint, gain=10.0, effort=1.0)


def _left(s: State) -> Tensor:
    """Return how far the pointer still has to move, along its circle. (N,)"""
    return _POINTER * (_TURNED - s.scene.joint("knob_Joint_1").abs()).clamp(min=0.0)


TASK = Task(
    name="dial-turn",
    summary="Turn a dial.",
    success_rule="pointer within 7 cm of the goal: turned by 1.37 rad or more, either way",
    start=Start((-0.1, 0.7, 0.0), (0.1, 0.8, 0.0), place),
    shaped=Stages((Leg("turn the dial", _left, within=0.0),), Hold((0.045, 0.02, 0.09), reach=0.07)),
    scene="dial",
    slots=slots,
    reward=reward,
    expert=expert,
)
