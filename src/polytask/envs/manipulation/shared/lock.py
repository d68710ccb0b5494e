"""What the two tasks with the door lock share."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.expert import offset
from polytask.envs.manipulation.task import Slots
from polytask.sim.view import SceneView

HAND_LOW = (-0.5, 0.4, -0.15)
REACH = (0.25, 1.0, 0.5)  # how much an error along x, y, z counts when the hand approaches the lock


def pivot(door: Tensor) -> Tensor:
    """Return the axis (N, 3) of the lock on a door."""
    return offset(door, y=-0.118, z=0.061)


def lock_slots(scene: SceneView, tip: str) -> Slots:
    """Show the named site at the tip of the lock and the orientation of the door, which never turns."""
    return Slots(obj=scene.site(tip), obj_quat=scene.body_quat("door_link"))
