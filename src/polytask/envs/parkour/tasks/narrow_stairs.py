"""Climb narrow stairs between pits."""

from __future__ import annotations

from polytask.envs.parkour.course import Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Add six steps; the ground continues at the height of the last one."""
    rise = (0.05 + 0.1 * difficulty, 0.07 + 0.15 * difficulty)
    course.steps(0.5 - 0.05 * difficulty, 0.5 - 0.225 * difficulty, rise)


TASK = Terrain("narrow-stairs", 14, build, (-0.2, 1.0), "Climb narrow stairs between pits.")
