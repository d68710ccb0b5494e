"""Cross six round hills."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the hills on the floor, each as the cap of a sphere."""
    course.floor()
    x = SPAWN + (21 - 5.5 * difficulty) * CELL
    power = 2 - 0.15 * difficulty
    for _ in range(6):
        radius = course.uniform(20 - 5.5 * difficulty, 21 - 5.5 * difficulty) * CELL
        top = course.uniform(0.2 + 0.4 * difficulty, 0.25 + 0.4 * difficulty)
        middle = (x + course.uniform(-0.4, 0.4), course.uniform(-0.9, 0.9))
        course.cap(*middle, radius * top ** (1 / power), top)
        course.goal(*middle)
        x += 2 * radius + 0.2 - 0.05 * difficulty
    course.goal(min(x + 0.5, 17.0), 0.0)


TASK = Terrain("dome", 5, build, (0.1, 0.8), "Cross six round hills.")
