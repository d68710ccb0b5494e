"""Cross a pit on six platforms of the same height."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the platforms into the pit."""
    course.pit()
    x = SPAWN + course.uniform(0.4 + 0.5 * difficulty, 0.5 + 0.5 * difficulty)
    for _ in range(6):
        length, y = 1.0 - 0.3 * difficulty + course.uniform(-0.2, 0.2), course.uniform(-0.1, 0.1)
        half_width = course.uniform(0.5, 0.5 + 0.05 * difficulty)
        course.block((x, x + length), (y - half_width, y + half_width), 0.0)
        course.goal(x + length / 2, y)
        x += length + course.uniform(0.4 + 0.5 * difficulty, 0.5 + 0.5 * difficulty)
    course.finish(x)


TASK = Terrain("even-gaps", 6, build, (-0.3, 0.4), "Cross a pit on six platforms of one height.")
