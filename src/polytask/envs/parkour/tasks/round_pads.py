"""Cross a pit on six round pads."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the pads into the pit; their centres are a pad's radius plus a random distance apart."""
    course.pit()
    x = SPAWN + 0.5 + 0.8 * difficulty
    for _ in range(6):
        outer = course.uniform(20 - 0.5 * difficulty, 21 + 1.2 * difficulty)
        lip = course.uniform(10 + 0.4 * difficulty, 10.1 + 0.6 * difficulty)
        radius = (outer - lip) * CELL
        jitter = (-0.2 + 0.15 * difficulty, 0.2 + 0.15 * difficulty)
        middle = (x + course.uniform(*jitter), course.uniform(*jitter))
        course.disc(*middle, radius, course.uniform(0.1 + 0.08 * difficulty, 0.2 + 0.1 * difficulty))
        course.goal(*middle)
        x += radius + course.uniform(0.4 + 0.7 * difficulty, 0.5 + 0.8 * difficulty)
    course.finish(x - radius)


TASK = Terrain("round-pads", 8, build, (-0.1, 0.8), "Cross a pit on six round pads.")
