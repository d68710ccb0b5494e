"""Shared code of the tasks with one loose object."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.points import at_height
from polytask.envs.manipulation.task import Placement, Slots
from polytask.sim.geometry import wxyz_to_xyzw
from polytask.sim.view import SceneView


def place_object_and_goal(vector: Tensor) -> Placement:
    """Put the object at the vector's first point and the goal at its second."""
    return Placement(target=vector[:, 3:6], obj_init=vector[:, 0:3], joints={"obj": vector[:, 0:3]})


def place_at_rest(vector: Tensor, height: float) -> Placement:
    """Put object and goal at the vector's points, both at the height at which the object rests on the table."""
    obj = at_height(vector[:, 0:3], height)
    return Placement(target=at_height(vector[:, 3:6], height), obj_init=obj, joints={"obj": obj})


def free_object_slots(scene: SceneView) -> Slots:
    """Return the object's position and its orientation, scalar first."""
    return Slots(obj=scene.body("obj"), obj_quat=scene.body_quat("obj"))


def free_object_slots_xyzw(scene: SceneView) -> Slots:
    """Return the object's position and its orientation, scalar last."""
    return Slots(obj=scene.body("obj"), obj_quat=wxyz_to_xyzw(scene.body_quat("obj")))
