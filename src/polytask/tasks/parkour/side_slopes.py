"""Cross a pit on six platforms that tilt to the left or to the right."""

from __future__ import annotations

from polytask.tasks.parkour.course import CELL, SPAWN, Course, snap
from polytask.tasks.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the platforms into the pit, each as a slab on a block; a level cell makes the high edge upright."""
    c.pit()
    gap = 0.1 + 0.65 * s
    x = SPAWN + gap
    for _ in range(6):
        length, y = 1.2 - 0.5 * s + c.uniform(-0.1, 0.1), snap(c.uniform(-0.1, 0.1))
        top = c.uniform(0.05 + 0.25 * s, 0.05 + 0.5 * s)
        span, low, high = (x, x + length), y - 0.5, y + 0.5
        if c.uniform(0.0, 1.0) < 0.5:
            c.side_slab(span, (low, high - CELL), 0.0, top)
            c.block(span, (high - CELL, high), top)
        else:
            y, low, high = y - 0.5, low - 0.5, high - 0.5
            c.side_slab(span, (low + CELL, high), top, 0.0)
            c.block(span, (low, low + CELL), top)
        c.block(span, (low, high), 0.0)
        c.goal(x + length / 2, y)
        x += length + gap
    c.finish(x)


TASK = Terrain(
    name="side-slopes",
    number=10,
    build=build,
    low=0.0,
    high=0.9,
    summary="Cross a pit on six platforms that tilt sideways.",
)
