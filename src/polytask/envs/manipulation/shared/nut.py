"""Shared code of the two tasks with the round nut: observation slots and the part of the handle to grip."""

from __future__ import annotations

from polytask.envs.manipulation.task import Slots
from polytask.sim.view import SceneView

REACH = 0.01  # the hand may grip the handle this far from its end along x without losing reward


def nut_slots(scene: SceneView) -> Slots:
    """Return the end of the handle and the nut's orientation."""
    return Slots(obj=scene.site("RoundNut-8"), obj_quat=scene.body_quat("RoundNut"))
