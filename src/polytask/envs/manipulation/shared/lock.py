"""Shared code of the two tasks with the door lock."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.task import Slots
from polytask.sim.view import SceneView

LOW, HIGH = (-0.1, 0.8, 0.15), (0.1, 0.85, 0.15)  # where the door may stand
REACH = (0.25, 1.0, 0.5)  # weights of errors along x, y, z when the hand approaches the lock


def pivot(door: Tensor) -> Tensor:
    """Return the position (N, 3) of the lock's axis on a door."""
    return offset(door, y=-0.118, z=0.061)


def lock_slots(scene: SceneView, tip: str) -> Slots:
    """Return the named site at the tip of the lock, and the constant orientation of the door."""
    return Slots(obj=scene.site(tip), obj_quat=scene.body_quat("door_link"))
