"""Climb stairs that wind up around a column."""

from __future__ import annotations

import math

from polytask.envs.parkour.course import LENGTH, PIT, WALL_FACE, Course, Span
from polytask.envs.parkour.shapes import BOX, Shape, rotation
from polytask.envs.parkour.terrain import Terrain

_SECTORS = 14
_ANGLE = math.pi / 7  # of a sector
_MIDDLE = 6.0  # x of the axis


def build(course: Course, difficulty: float) -> None:
    """Add the sectors counter-clockwise from the side that faces the start; the first one is the floor itself."""
    course.ground(0.0, LENGTH)
    scale = 1 - 0.35 * difficulty
    course.goal(4.0 - 0.5 * scale, -0.3)
    top = 0.0
    for sector in range(1, _SECTORS):
        top += course.uniform(0.05 + 0.15 * difficulty, 0.05 + 0.2 * difficulty)
        # A box along the sector's first side covers it; the higher sectors behind it hide what sticks out. The last
        # sectors have nothing higher behind them: each is made of three boxes, so that little of them sticks out.
        parts = 1 if sector < _SECTORS - 3 else 3
        for part in range(parts):
            _box(course, sector, (part / parts * 2 * scale, (part + 1) / parts * 2 * scale), top)
        if sector % 2 == 1:
            middle = -math.pi + (sector + 0.5) * _ANGLE
            course.goal(_MIDDLE + 0.94 * scale * math.cos(middle), 0.94 * scale * math.sin(middle))


def _box(course: Course, sector: int, radii: Span, top: float) -> None:
    """Add a box from one radius to another along a sector's first side, as wide as the sector is at its end.

    Where its corners would pierce the wall beside it, it ends earlier.
    """
    angle = -math.pi + sector * _ANGLE
    corners = (
        math.sin(angle),
        math.sin(angle) + math.sin(_ANGLE) * math.cos(angle),
    )  # y at the end, per metre of radius
    radii = (radii[0], min(radii[1], WALL_FACE / max(abs(corner) for corner in corners)))
    along, across = (radii[0] + radii[1]) / 2, radii[1] * math.sin(_ANGLE) / 2
    x = _MIDDLE + along * math.cos(angle) - across * math.sin(angle)
    y = along * math.sin(angle) + across * math.cos(angle)
    size = ((radii[1] - radii[0]) / 2, across, (top - PIT) / 2)
    course.shapes.append(Shape(BOX, (x, y, (top + PIT) / 2), size, rotation((0.0, 0.0, 1.0), angle)))


TASK = Terrain("spiral-stairs", 16, build, (0.0, 1.0), "Climb stairs that wind up around a column.", version=2)
