"""Climb six high blocks between pits."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Add six blocks; the ground continues at the height of the last one."""
    c.pit()
    x, top, length, half_width = SPAWN, 0.0, 1.5 - 0.1 * s, 0.75 - 0.2 * s
    for _ in range(6):
        top += c.uniform(0.3 + 0.3 * s, 0.4 + 0.3 * s)
        c.block((x, x + length), (-half_width, half_width), top)
        c.goal(x + length / 2, 0.0)
        x += length
    c.finish(x, top)


TASK = Terrain("block-climb", 15, build, (-0.2, 0.4), "Climb six high blocks between pits.")
