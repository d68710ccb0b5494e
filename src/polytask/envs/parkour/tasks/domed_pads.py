"""Cross a pit on six domes."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the domes into the pit, each as the cap of a sphere that reaches down to the edge of the original dome."""
    c.pit()
    x, depth = SPAWN + 0.4 + 0.4 * s, 0.35 / (s + 2) ** 2
    for _ in range(6):
        radius = c.uniform(20 - 2.5 * s, 21 - 2.5 * s) * CELL
        lip = c.uniform(3 + 1.5 * s, 3.5 + 2 * s) * CELL
        top = c.uniform(0.1 + 0.05 * s, 0.15 + 0.07 * s)
        y = c.uniform(-0.2 + 0.15 * s, 0.2 + 0.15 * s)
        c.cap(x, y, radius * (top + depth) ** 0.5, top, -depth)
        c.goal(x, y)
        x += radius - lip + c.uniform(0.4 + 0.4 * s, 0.5 + 0.5 * s)
    c.finish(x - radius + lip)


TASK = Terrain("domed-pads", 9, build, (-0.5, 0.5), "Cross a pit on six domes.")
