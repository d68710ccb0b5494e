"""Cross a pit on twelve staggered slabs of stone."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the stones into the pit in staggered pairs."""
    c.pit()
    length, width = 0.7 - 0.55 * s, 0.6 - 0.3 * s
    shift = min(width * (s + 1.5) / 2, 0.25 + 0.2 * s)
    x = SPAWN + c.uniform(0.05 + 0.1 * s, 0.1 + 0.2 * s)
    for _ in range(6):
        gap = c.uniform(0.05 + 0.1 * s, 0.1 + 0.2 * s)
        side = 1 if c.uniform(0.0, 1.0) < 0.5 else -1
        y = side * c.uniform(0.03 + 0.04 * s, 0.05 + 0.08 * s)
        for start, middle in ((x, y), (x + gap, y + shift)):
            c.block((start, start + length), (middle - width / 2, middle + width / 2), 0.0)
        c.goal(x + (length + gap) / 2, y + shift / 2)
        x += gap + length + 0.2 * gap
    c.finish(x)


TASK = Terrain("scattered-stones", 12, build, (0.1, 0.3), "Cross a pit on twelve staggered stones.")
