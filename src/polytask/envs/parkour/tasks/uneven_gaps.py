"""Cross a pit on six platforms of changing height."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the platforms into the pit, each a step above or below the previous one and never below the start."""
    c.pit()
    x, top = SPAWN + c.uniform(0.4 + 0.3 * s, 0.5 + 0.4 * s), 0.0
    for _ in range(6):
        length, y = 1.2 - 0.3 * s + c.uniform(-0.3, 0.3), c.uniform(-0.1, 0.1)
        # The range is negative on low levels, where the original descends into its pit. Here the absolute value counts.
        step = abs(c.uniform(0.01 + 0.2 * s, 0.02 + 0.25 * s))
        goes_up = top - step <= 0 or c.uniform(0.0, 1.0) < 0.5
        top += step if goes_up else -step
        half_width = c.uniform(0.5, 0.5 + 0.05 * s)
        c.block((x, x + length), (y - half_width, y + half_width), top)
        c.goal(x + length / 2, y)
        x += length + c.uniform(0.4 + 0.3 * s, 0.5 + 0.4 * s)
    c.finish(x, top)


TASK = Terrain("uneven-gaps", 7, build, (-0.4, 0.6), "Cross a pit on six platforms of changing height.")
