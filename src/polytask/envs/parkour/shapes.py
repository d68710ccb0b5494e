"""Boxes, spheres and vertical capsules, from which every tile of terrain is built, and their heights.

Height fields would be the obvious choice, but neither MuJoCo nor MuJoCo Warp handles collisions with their cliffs
correctly. Collisions of these three shapes with the robot's spheres and capsules have a closed form. Coordinates are
those of the tile: x is 0 at its start, y is 0 on its middle line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BOX, SPHERE, CAPSULE = "box", "sphere", "capsule"
_EDGE = 1e-6  # a sample on an edge counts as covered


@dataclass(frozen=True)
class Shape:
    """One shape, as MuJoCo describes it."""

    kind: str
    pos: tuple[float, float, float]
    size: tuple[float, float, float]  # box: half sizes; sphere: radius; capsule: radius and half length
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)

    @property
    def matrix(self) -> Array:
        """Axes of the shape as columns. (3, 3)"""
        flat = np.zeros(9)
        mujoco.mju_quat2Mat(flat, np.array(self.quat))
        return flat.reshape(3, 3)

    @property
    def reach(self) -> Array:
        """Half of the shape's extent along x and y. (2,)"""
        if self.kind == BOX:
            return np.asarray(np.abs(self.matrix[:2]) @ np.array(self.size))
        return np.full(2, self.size[0])

    def height(self, x: Array, y: Array) -> Array:
        """Return the height of the shape's upper surface at points (x, y), -inf outside the shape."""
        if self.kind == BOX:
            return self._box_height(x, y)
        radius = self.size[0]
        top = self.pos[2] + (self.size[1] if self.kind == CAPSULE else 0.0)
        square = radius**2 - (x - self.pos[0]) ** 2 - (y - self.pos[1]) ** 2
        return np.asarray(np.where(square >= 0, top + np.sqrt(np.maximum(square, 0.0)), -np.inf))

    def _box_height(self, x: Array, y: Array) -> Array:
        """Intersect vertical lines with the three slabs that form the box."""
        axes = self.matrix
        upper, lower = np.full(x.shape, np.inf), np.full(x.shape, -np.inf)
        for axis, half in zip(axes.T, self.size, strict=True):
            # On the line, the coordinate along this axis is start + axis[2] z.
            start = axis[0] * (x - self.pos[0]) + axis[1] * (y - self.pos[1]) - axis[2] * self.pos[2]
            if abs(axis[2]) < 1e-9:
                upper = np.where(np.abs(start) <= half + _EDGE, upper, -np.inf)
            else:
                ends = (np.array([half, -half])[:, None, None] - start) / axis[2]
                upper, lower = np.minimum(upper, ends.max(0)), np.maximum(lower, ends.min(0))
        return np.asarray(np.where(upper >= lower - _EDGE, upper, -np.inf))


def rotation(axis: tuple[float, float, float], angle: float) -> Any:
    """Return the quaternion of a rotation about an axis, as four numbers."""
    sine = np.sin(angle / 2)
    return (float(np.cos(angle / 2)), *(float(sine * part) for part in axis))
