"""Cross a pit on six platforms of the same height."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the platforms into the pit."""
    c.pit()
    x = SPAWN + c.uniform(0.4 + 0.5 * s, 0.5 + 0.5 * s)
    for _ in range(6):
        length, y = 1.0 - 0.3 * s + c.uniform(-0.2, 0.2), c.uniform(-0.1, 0.1)
        half_width = c.uniform(0.5, 0.5 + 0.05 * s)
        c.block((x, x + length), (y - half_width, y + half_width), 0.0)
        c.goal(x + length / 2, y)
        x += length + c.uniform(0.4 + 0.5 * s, 0.5 + 0.5 * s)
    c.finish(x)


TASK = Terrain("even-gaps", 6, build, (-0.3, 0.4), "Cross a pit on six platforms of one height.")
