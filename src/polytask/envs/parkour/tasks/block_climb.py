"""Climb six high blocks between pits."""

from __future__ import annotations

from polytask.envs.parkour.course import Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Add six blocks; the ground continues at the height of the last one."""
    rise = (0.3 + 0.3 * difficulty, 0.4 + 0.3 * difficulty)
    course.steps(1.5 - 0.1 * difficulty, 0.75 - 0.2 * difficulty, rise)


TASK = Terrain("block-climb", 15, build, (-0.2, 0.4), "Climb six high blocks between pits.")
