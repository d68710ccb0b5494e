"""Climb six low domes with a vertical rim."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain

_PROFILE = 3  # the height decreases with this power of the distance from the middle


def build(c: Course, s: float) -> None:
    """Put the domes on the floor, each as two prisms of different height."""
    c.floor()
    x = SPAWN + (21 - 5 * s) * CELL
    for index in range(6):
        radius = c.uniform(20 - 5 * s, 21 - 5 * s) * CELL
        rim = radius - c.uniform(10 - 2 * s, 11 - 2 * s) * CELL
        top = c.uniform(0.1 + 0.4 * s, 0.15 + 0.45 * s) + 0.05 * index
        middle = (x + c.uniform(-0.4, 0.4), c.uniform(-0.9, 0.9))
        c.disc(*middle, rim, max(top - (0.9 * rim / radius) ** _PROFILE, 0.01), boxes=3)
        c.disc(*middle, 0.65 * rim, top - (0.45 * rim / radius) ** _PROFILE, boxes=3)
        c.goal(*middle)
        x += 2 * radius + 0.2 - 0.05 * s
    c.goal(min(x + 0.5, 17.0), 0.0)


TASK = Terrain("lipped-dome", 2, build, (0.0, 0.9), "Climb six low domes with an upright rim.")
