"""Shared code of the tasks with a button on a box.

The box either faces the robot or, turned by a right angle, the ceiling. Success requires more travel than the button's
joint range, which has a soft limit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Slots
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_TIP = 0.193  # from the button's frame to its face
_TRAVEL = 0.0935  # from the face of the released button to the goal, which lies at the mouth of the box


def front_slots(scene: SceneView) -> Slots:
    """Return the face of a button that points to the robot, and its orientation, scalar first."""
    return Slots(obj=offset(scene.body("button"), y=-_TIP), obj_quat=scene.body_quat("button"))


def top_slots(scene: SceneView) -> Slots:
    """Return the face of a button that points upwards, and its orientation, scalar first."""
    return Slots(obj=offset(scene.body("button"), z=_TIP), obj_quat=scene.body_quat("button"))


def place_front(vector: Tensor) -> Placement:
    """Place the box with its released button towards the robot."""
    return Placement(
        target=offset(vector, y=-0.1),
        obj_init=vector,
        fixtures={"box": vector},
        joints={"btnbox_joint": torch.zeros_like(vector[:, 0])},
    )


def place_top(vector: Tensor) -> Placement:
    """Place the box with its button upwards; the settled scene leaves the button released."""
    # The box is turned by 1.57 rad, not quite a right angle: the mouth is 0.08 mm off.
    return Placement(target=offset(vector, y=-7.963267e-5, z=0.1), obj_init=vector, fixtures={"box": vector})


def closeness(s: State, tip_gap: Tensor, radius: float) -> Tensor:
    """Return how close the tool centre is to the button, given their distance (N,).

    The margin depends on the button: it is the distance of its current position from the start of the tool centre.
    """
    return tolerance(tip_gap, 0.0, radius, distance(s.obj, s.tcp_init))


def pressed(remaining: Tensor) -> Tensor:
    """Return how far the button is pressed, given the remaining travel (N,)."""
    return tolerance(remaining, 0.0, 0.005, _TRAVEL)


def topdown_reward(s: State, grip: Tensor) -> tuple[Tensor, Tensor]:
    """Reward a tool centre at an upward button, combined with `grip` (N,), and pressing the button from there."""
    remaining = (s.target[:, 2] - s.obj[:, 2]).abs()
    tip_gap = distance(s.obj, s.tcp)
    dense = hamacher(grip, closeness(s, tip_gap, 0.01)) + (tip_gap <= 0.03) * pressed(remaining)
    return 5 * dense, remaining <= 0.024


def press_down(look: Look, effort: float | Tensor) -> Tensor:
    """Return the action (N, 4) that moves above an upward button and presses it, with this gripper effort."""
    is_away = planar_gap(look.hand, look.obj) > 0.04
    waypoint = first_of((is_away, offset(look.obj, z=0.1)), otherwise=look.obj)
    return act(look.hand, waypoint, gain=25.0, effort=effort)


def half_closed(look: Look) -> Tensor:
    """Return the gripper effort (N,) that brings the fingers to the width of a button's face."""
    return 2 * (look.openness - 0.6)
