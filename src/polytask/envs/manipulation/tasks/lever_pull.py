"""Pull a lever up until it is upright."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import BELOW_TABLE, HAND_BACK, Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance, wxyz_to_xyzw
from polytask.sim.view import SceneView, constant

_UPRIGHT = (0.12, 0.0, 0.45)  # knob of the upright lever, relative to the base
_LYING = (0.12, -0.2, 0.25)  # knob at the start
_TURN = math.hypot(0.2, 0.2)  # distance between the two
_ANGLE, _ANGLE_SLACK = math.pi / 2, math.pi / 24
_SCALE = (4.0, 1.0, 4.0)  # sideways and vertical distances from the knob count four times
_HOLD = Hold((0.0, -0.05, -0.08), side="below", away=0.03, slack=0.05, reach=0.06, depth=0.06)


def place(vector: Tensor) -> Placement:
    """Put the lever at the vector's position."""
    return Placement(target=vector + constant(_UPRIGHT, vector), obj_init=vector, fixtures={"lever": vector})


def slots(scene: SceneView) -> Slots:
    """Return the lever's knob and its orientation, scalar last."""
    return Slots(obj=scene.site("leverStart"), obj_quat=wxyz_to_xyzw(scene.site_quat("objGeom")))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward a hand under the knob, combined with the knob's closeness to the goal; success tests the angle."""
    scale, under = s.constant(*_SCALE), s.constant(0.0, 0.055, 0.07)
    start = s.obj_init + s.constant(*_LYING)
    margin = distance(s.tcp_init + under, start, scale)
    miss = distance(s.hand + under, s.obj, scale)
    in_place = tolerance(distance(s.obj, s.target), 0.0, 0.04, _TURN)
    # Lifting is the negative direction; it goes beyond the joint's soft limit.
    angle = -s.scene.joint("LeverAxis")
    return 10 * hamacher(tolerance(miss, 0.0, 0.02, margin), in_place), (angle - _ANGLE).abs() <= _ANGLE_SLACK


def expert(look: Look) -> Tensor:
    """Move under the knob, lift it with the palm, and hold it from the near side once the lever is upright."""
    # Far enough under the knob that the palm carries it: the knob would slip off the edge of the gripper.
    under = offset(look.obj, y=-0.03)
    # This limit is wide, because the knob rolls forward on the hand as the lever rises.
    aside = planar_gap(look.hand, under) > 0.045
    error = look.goal - look.obj
    hold = torch.stack([look.obj[:, 0], look.hand[:, 1] + error[:, 1], look.obj[:, 2] - 0.03], -1)
    waypoint = first_of((error[:, 1].abs() < 0.045, hold), (aside, offset(under, z=-0.1)), otherwise=under)
    return act(look.hand, waypoint, gain=25.0, effort=1.0)


TASK = Task(
    name="lever-pull",
    summary="Pull a lever up until it stands.",
    success_rule="lever within 7.5 degrees of upright",
    start=Start((-0.1, 0.7, 0.0), (0.1, 0.8, 0.0), place, hand=HAND_BACK),
    shaped=Stages(bring("lift the lever", within=0.02), _HOLD),
    scene="lever",
    slots=slots,
    reward=reward,
    expert=expert,
    hand_low=BELOW_TABLE,
)
