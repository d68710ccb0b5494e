"""Shared code of the tasks with the hinged door."""

from __future__ import annotations

from polytask.envs.manipulation.task import Slots
from polytask.sim.geometry import wxyz_to_xyzw
from polytask.sim.view import SceneView


def door_slots(scene: SceneView) -> Slots:
    """Return the handle's position and orientation, scalar last."""
    return Slots(obj=scene.site("handle"), obj_quat=wxyz_to_xyzw(scene.site_quat("handle")))
