"""Cross a pit on six platforms of changing height."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the platforms into the pit, each a step above or below the previous one and never below the start."""
    course.pit()
    x, top = SPAWN + course.uniform(0.4 + 0.3 * difficulty, 0.5 + 0.4 * difficulty), 0.0
    for _ in range(6):
        length, y = 1.2 - 0.3 * difficulty + course.uniform(-0.3, 0.3), course.uniform(-0.1, 0.1)
        # The range is negative on low levels, where the original descends into its pit. Here the absolute value counts.
        step = abs(course.uniform(0.01 + 0.2 * difficulty, 0.02 + 0.25 * difficulty))
        goes_up = top - step <= 0 or course.uniform(0.0, 1.0) < 0.5
        top += step if goes_up else -step
        half_width = course.uniform(0.5, 0.5 + 0.05 * difficulty)
        course.block((x, x + length), (y - half_width, y + half_width), top)
        course.goal(x + length / 2, y)
        x += length + course.uniform(0.4 + 0.3 * difficulty, 0.5 + 0.4 * difficulty)
    course.finish(x, top)


TASK = Terrain("uneven-gaps", 7, build, (-0.4, 0.6), "Cross a pit on six platforms of changing height.")
