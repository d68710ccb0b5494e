"""Cross a pit on twelve staggered slabs of stone."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the stones into the pit in staggered pairs."""
    course.pit()
    length, width = 0.7 - 0.55 * difficulty, 0.6 - 0.3 * difficulty
    shift = min(width * (difficulty + 1.5) / 2, 0.25 + 0.2 * difficulty)
    x = SPAWN + course.uniform(0.05 + 0.1 * difficulty, 0.1 + 0.2 * difficulty)
    for _ in range(6):
        gap = course.uniform(0.05 + 0.1 * difficulty, 0.1 + 0.2 * difficulty)
        side = 1 if course.uniform(0.0, 1.0) < 0.5 else -1
        y = side * course.uniform(0.03 + 0.04 * difficulty, 0.05 + 0.08 * difficulty)
        for start, middle in ((x, y), (x + gap, y + shift)):
            course.block((start, start + length), (middle - width / 2, middle + width / 2), 0.0)
        course.goal(x + (length + gap) / 2, y + shift / 2)
        x += gap + length + 0.2 * gap
    course.finish(x)


TASK = Terrain("scattered-stones", 12, build, (0.1, 0.3), "Cross a pit on twelve staggered stones.")
