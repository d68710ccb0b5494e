"""Shared code of the tasks with one loose object and a scalar-first orientation."""

from __future__ import annotations

from polytask.envs.manipulation.task import Slots
from polytask.sim.view import SceneView


def free_object_slots(scene: SceneView) -> Slots:
    """Return the object's position and its orientation, scalar first."""
    return Slots(obj=scene.body("obj"), obj_quat=scene.body_quat("obj"))
