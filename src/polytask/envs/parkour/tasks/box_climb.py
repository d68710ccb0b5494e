"""Climb onto and down from six boxes, each higher than the one before."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the boxes on the floor."""
    course.floor()
    x, half_width = SPAWN, course.uniform(0.5, 1.0)
    for index in range(6):
        length, y = 1.2 - 0.25 * difficulty + course.uniform(-0.2, 0.2), course.uniform(-0.1, 0.1)
        top = course.uniform(0.1 + 0.55 * difficulty, 0.15 + 0.55 * difficulty) + 0.05 * index
        course.block((x, x + length), (y - half_width, y + half_width), top)
        course.goal(x + length / 2, y)
        x += length + 1.0 - 0.1 * difficulty
    course.goal(x + 0.5, 0.0)


TASK = Terrain("box-climb", 0, build, (-0.1, 0.6), "Climb six boxes, each higher than the last.")
