"""Shared code of the tasks with a free puck."""

from __future__ import annotations

from polytask.envs.manipulation.rotations import wxyz_to_xyzw
from polytask.envs.manipulation.task import Slots
from polytask.sim.view import SceneView


def puck_slots(scene: SceneView) -> Slots:
    """Return the puck's position and its orientation, scalar last."""
    return Slots(obj=scene.body("obj"), obj_quat=wxyz_to_xyzw(scene.body_quat("obj")))
