"""Pull a thermos along the table with a stick through its handle."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.shared.stick import place_stick, stick_expert, stick_start
from polytask.envs.manipulation.stages import Hold, Leg, Stages, line_up
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Slots, Start, Task
from polytask.sim.geometry import distance, wxyz_to_xyzw
from polytask.sim.view import SceneView

_RADIUS = 0.05
_CAGE = Cage(radius=0.014, pad=0.05, xz=0.01, density="high")


def place(vector: Tensor) -> Placement:
    """Put the stick and the goal at the vector's points."""
    return place_stick(vector, height=0.02, y=0.09)


def slots(scene: SceneView) -> Slots:
    """Return the stick's pose and the middle of the thermos's handle."""
    return Slots(scene.body("stick"), wxyz_to_xyzw(scene.body_quat("stick")), scene.site("insertion"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping the stick, then moving it to the handle, then closeness of both to the goal."""
    o, start, handle = s.obj, stick_start(s.vector), s.scene.site("insertion")
    container, stretch = offset(handle, x=0.05), s.constant(1.0, 1.0, 2.0)
    margin = distance(start, offset(s.obj_init, x=0.05), stretch)
    at_handle = tolerance(distance(o, container, stretch), 0.0, _RADIUS, margin)
    stick_in = tolerance(distance(o, s.target), 0.0, _RADIUS, distance(start, s.target))
    container_in = tolerance(distance(container, s.target), 0.0, _RADIUS, distance(s.obj_init, s.target))
    held = (distance(o, s.tcp) < 0.02) & (s.openness > 0) & (o[:, 2] - 0.01 > start[:, 2])
    base = hamacher(torch.where(held, 1.0, cage(s, o, _CAGE)), at_handle)
    inserted = _is_inserted(s.scene.site("stick_end") - handle)
    success = inserted & (distance(handle, s.target) <= 0.12)
    pulling = torch.where(success, 10.0, 6 + base + 2 * stick_in + container_in)
    return torch.where(held, torch.where(inserted, pulling, 1 + base + 5 * at_handle), base), success


def _is_inserted(tip: Tensor) -> Tensor:
    """Return whether the stick's tip, relative to the handle's middle, is through the handle. (N,) bool"""
    return (tip[:, 0] >= 0) & (tip[:, 1].abs() <= 0.04) & (tip[:, 2].abs() <= 0.06)


def expert(look: Look) -> Tensor:
    """Grip the stick behind its middle, put it through the handle and move hand and handle towards the goal."""
    hand, handle = look.hand, look.obj2
    aim = offset(handle, x=-0.015, z=0.03)
    inserted = _is_inserted(offset(look.obj, x=0.04) - handle)
    onwards = at_height(hand + look.goal - handle, aim[:, 2])
    return stick_expert(look, grip=-0.015, aim=aim, joined=(inserted, onwards), gain=20.0)


def _tip(s: State) -> Tensor:
    """Return the stick's tip, relative to the handle's middle. (N, 3)"""
    return s.scene.site("stick_end") - s.scene.site("insertion")


def _off_handle(s: State) -> Tensor:
    return torch.linalg.vector_norm(_tip(s)[:, 1:], dim=-1)


def _before_handle(s: State) -> Tensor:
    return (0.01 - _tip(s)[:, 0]).clamp(min=0.0) + _off_handle(s)


def _handle_left(s: State) -> Tensor:
    return planar_gap(s.scene.site("insertion"), s.target)


def _is_through(s: State) -> Tensor:
    return _is_inserted(_tip(s))


TASK = Task(
    name="stick-pull",
    summary="Put a stick through the handle of a thermos and pull it to a goal.",
    success_rule="handle within 12 cm of the goal with the stick's tip through it",
    start=Start((-0.1, 0.55, 0.0, 0.35, 0.45, 0.0199), (0.0, 0.65, 0.001, 0.45, 0.55, 0.0201), place, Separation(0.1)),
    shaped=Stages(
        (
            *line_up(
                "tip level with the handle",
                _off_handle,
                slack=0.04,
                then="put it through",
                rest=_before_handle,
                within=0.0,
            ),
            Leg("pull the handle to the goal", _handle_left, _is_through, within=0.04),
        ),
        Hold((-0.01, 0.0, 0.041), closed=0.58, empty=0.3),
    ),
    scene="stick",
    slots=slots,
    reward=reward,
    expert=expert,
    hand_low=(-0.5, 0.35, 0.05),
)
