"""Cross six round hills."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the hills on the floor, each as the cap of a sphere."""
    c.floor()
    x = SPAWN + (21 - 5.5 * s) * CELL
    power = 2 - 0.15 * s
    for _ in range(6):
        radius = c.uniform(20 - 5.5 * s, 21 - 5.5 * s) * CELL
        top = c.uniform(0.2 + 0.4 * s, 0.25 + 0.4 * s)
        middle = (x + c.uniform(-0.4, 0.4), c.uniform(-0.9, 0.9))
        c.cap(*middle, radius * top ** (1 / power), top)
        c.goal(*middle)
        x += 2 * radius + 0.2 - 0.05 * s
    c.goal(min(x + 0.5, 17.0), 0.0)


TASK = Terrain("dome", 5, build, (0.1, 0.8), "Cross six round hills.")
