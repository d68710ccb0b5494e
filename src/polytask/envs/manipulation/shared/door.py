"""Shared code of the tasks with the hinged door."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.task import Placement, Slots
from polytask.sim.geometry import wxyz_to_xyzw
from polytask.sim.view import SceneView

LOW, HIGH = (0.0, 0.85, 0.15), (0.1, 0.95, 0.15)  # where the door may stand


def place_door(vector: Tensor, goal: tuple[float, float], angle: float) -> Placement:
    """Put the door at `vector` (N, 3), turned by `angle`; the goal is relative to it, along x and y."""
    return Placement(
        target=offset(vector, *goal),
        obj_init=vector,
        fixtures={"door": vector},
        joints={"doorjoint": torch.full_like(vector[:, 0], angle)},
    )


def door_slots(scene: SceneView) -> Slots:
    """Return the handle's position and orientation, scalar last."""
    return Slots(obj=scene.site("handle"), obj_quat=wxyz_to_xyzw(scene.site_quat("handle")))
