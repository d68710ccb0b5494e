"""Cross a pit on six domes."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the domes into the pit, each as a pillar whose round top reaches down to the edge of the original dome."""
    course.pit()
    x, depth = SPAWN + 0.4 + 0.4 * difficulty, 0.35 / (difficulty + 2) ** 2
    for _ in range(6):
        radius = course.uniform(20 - 2.5 * difficulty, 21 - 2.5 * difficulty) * CELL
        lip = course.uniform(3 + 1.5 * difficulty, 3.5 + 2 * difficulty) * CELL
        top = course.uniform(0.1 + 0.05 * difficulty, 0.15 + 0.07 * difficulty)
        y = course.uniform(-0.2 + 0.15 * difficulty, 0.2 + 0.15 * difficulty)
        course.domed_pillar(x, y, radius * (top + depth) ** 0.5, top, -depth)
        course.goal(x, y)
        x += radius - lip + course.uniform(0.4 + 0.4 * difficulty, 0.5 + 0.5 * difficulty)
    course.finish(x - radius + lip)


TASK = Terrain("domed-pads", 9, build, (-0.5, 0.5), "Cross a pit on six domes.", version=2)
