"""Cross a pit on twelve round stones in pairs."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the stones into the pit, alternately on the right and on the left."""
    c.pit()
    radius = (7 - 3.5 * s) * CELL
    x = SPAWN + radius
    for _ in range(6):
        gap = c.uniform(0.05 + 0.05 * s, 0.1 + 0.07 * s)
        offset = snap(c.uniform(0.15 - 0.05 * s, 0.2 - 0.05 * s))
        left = x + gap + radius / 3
        c.disc(x, -offset, radius, c.uniform(0.0, 0.07 * s), boxes=3)
        c.disc(left, radius + offset, radius, c.uniform(0.0, 0.07 * s), boxes=3)
        c.goal((x + left) / 2, radius / 2)
        x = left + 1.5 * gap + radius
    c.finish(x - radius)


TASK = Terrain("round-stones", 11, build, (-0.4, 0.9), "Cross a pit on twelve round stones.")
