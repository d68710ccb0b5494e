"""Push a thermos along the table with a stick."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.shared.stick import place_stick, stick_expert, stick_start
from polytask.envs.manipulation.stages import Hold, Stages, line_up
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Slots, Start, Task
from polytask.sim.geometry import distance, wxyz_to_xyzw
from polytask.sim.view import SceneView

_RADIUS = 0.12
_HEIGHT = 0.132  # of the middle of the thermos's handle
_LOWER = 0.03  # how far below the handle the stick pushes: the fingers pass over the thermos's foot
_CAGE = Cage(radius=0.04, pad=0.05, xz=0.01, density="high")


def place(vector: Tensor) -> Placement:
    """Put the stick and the goal at the vector's points."""
    return place_stick(vector, height=_HEIGHT, y=0.0)


def _container(scene: SceneView) -> Tensor:
    """Return the axis of the thermos at handle height. (N, 3)"""
    return offset(scene.site("insertion"), y=0.09)


def slots(scene: SceneView) -> Slots:
    """Return the stick's pose and the thermos."""
    return Slots(scene.body("stick"), wxyz_to_xyzw(scene.body_quat("stick")), _container(scene))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping the stick, then closeness of stick and thermos to the goal."""
    start, stick = stick_start(s.vector), offset(s.obj, x=0.015)
    gap = distance(_container(s.scene), s.target)
    stick_in = tolerance(distance(stick, s.target), 0.0, _RADIUS, distance(start, s.target) - _RADIUS)
    container_in = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target) - _RADIUS)
    is_lifted = (s.openness > 0) & (s.obj[:, 2] - 0.01 > start[:, 2])
    is_there = gap <= _RADIUS
    held = torch.where(is_there, 10.0, 2 + 5 * stick_in + 3 * container_in)
    paid = torch.where((distance(stick, s.tcp) < 0.02) & is_lifted, held, cage(s, stick, _CAGE, reference=start))
    return paid, is_there & is_lifted & _is_gripped(s.scene)


def _is_gripped(scene: SceneView) -> Tensor:
    """Return whether both pads press on the stick. (N,) bool"""
    left, right = scene.sensor("leftpad_stick"), scene.sensor("rightpad_stick")  # (N, 3), normal force first
    return (left[:, 0] > 0) & (right[:, 0] > 0)


def expert(look: Look) -> Tensor:
    """Grip the stick in front of its middle, push the thermos with its tip and stop near the goal."""
    is_there = look.goal[:, 0] - look.obj2[:, 0] < 0.08
    return stick_expert(look, grip=0.015, aim=look.obj2, joined=(is_there, look.hand), gain=10.0)


def _off_thermos(s: State) -> Tensor:
    """Return the distance of the stick from the line along which it must push. (N,)"""
    line = offset(_container(s.scene), z=-_LOWER)
    return distance(s.obj[:, 1:], line[:, 1:])


def _way_left(s: State) -> Tensor:
    """Return the way that the tip has to go to the thermos, and the thermos to the goal. (N,)"""
    thermos = _container(s.scene)
    return (thermos - s.scene.site("stick_end"))[:, 0].clamp(min=0.0) + distance(thermos, s.target)


TASK = Task(
    name="stick-push",
    summary="Grip a stick and push a thermos with it to a goal.",
    success_rule="thermos within 12 cm of the goal while both pads press on the lifted stick",
    start=Start(
        (-0.08, 0.58, 0.0, 0.399, 0.55, 0.1319), (-0.03, 0.62, 0.001, 0.401, 0.6, 0.1321), place, Separation(0.1)
    ),
    shaped=Stages(
        line_up(
            "stick level with the thermos",
            _off_thermos,
            slack=0.04,
            then="thermos to the goal",
            rest=_way_left,
            within=0.17,
        ),
        Hold((0.023, 0.0, 0.042), closed=0.5, empty=0.3),
    ),
    scene="stick",
    slots=slots,
    reward=reward,
    expert=expert,
)
