"""Climb six low domes with a vertical rim."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain

_PROFILE = 3  # the height decreases with this power of the distance from the middle


def build(course: Course, difficulty: float) -> None:
    """Put the domes on the floor, each as two prisms of different height."""
    course.floor()
    x = SPAWN + (21 - 5 * difficulty) * CELL
    for index in range(6):
        radius = course.uniform(20 - 5 * difficulty, 21 - 5 * difficulty) * CELL
        rim = radius - course.uniform(10 - 2 * difficulty, 11 - 2 * difficulty) * CELL
        top = course.uniform(0.1 + 0.4 * difficulty, 0.15 + 0.45 * difficulty) + 0.05 * index
        middle = (x + course.uniform(-0.4, 0.4), course.uniform(-0.9, 0.9))
        course.disc(*middle, rim, max(top - (0.9 * rim / radius) ** _PROFILE, 0.01), boxes=3)
        course.disc(*middle, 0.65 * rim, top - (0.45 * rim / radius) ** _PROFILE, boxes=3)
        course.goal(*middle)
        x += 2 * radius + 0.2 - 0.05 * difficulty
    course.goal(min(x + 0.5, 17.0), 0.0)


TASK = Terrain("lipped-dome", 2, build, (0.0, 0.9), "Climb six low domes with an upright rim.")
