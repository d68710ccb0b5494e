"""Climb narrow stairs between pits."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Add six steps; the ground continues at the height of the last one."""
    c.pit()
    x, top, tread, half_width = SPAWN, 0.0, 0.5 - 0.05 * s, 0.5 - 0.225 * s
    for _ in range(6):
        top += c.uniform(0.05 + 0.1 * s, 0.07 + 0.15 * s)
        c.block((x, x + tread), (-half_width, half_width), top)
        c.goal(x + tread / 2, 0.0)
        x += tread
    c.finish(x, top)


TASK = Terrain("narrow-stairs", 14, build, (-0.2, 1.0), "Climb narrow stairs between pits.")
