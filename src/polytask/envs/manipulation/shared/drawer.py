"""Shared code of the two tasks with the drawer."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.points import offset
from polytask.sim.view import SceneView

LOW, HIGH = (-0.1, 0.9, 0.0), (0.1, 0.9, 0.0)  # where the cabinet may stand


def handle(scene: SceneView, above: float = 0.0) -> Tensor:
    """Return the position of the drawer's handle, or of a point above it. (N, 3)"""
    return offset(scene.body("drawer_link"), y=-0.16, z=above)
