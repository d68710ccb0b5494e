"""Cross a pit on six round pads."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the pads into the pit; their centres are a pad's radius plus a random distance apart."""
    c.pit()
    x = SPAWN + 0.5 + 0.8 * s
    for _ in range(6):
        radius = (c.uniform(20 - 0.5 * s, 21 + 1.2 * s) - c.uniform(10 + 0.4 * s, 10.1 + 0.6 * s)) * CELL
        jitter = (-0.2 + 0.15 * s, 0.2 + 0.15 * s)
        middle = (x + c.uniform(*jitter), c.uniform(*jitter))
        c.disc(*middle, radius, c.uniform(0.1 + 0.08 * s, 0.2 + 0.1 * s))
        c.goal(*middle)
        x += radius + c.uniform(0.4 + 0.7 * s, 0.5 + 0.8 * s)
    c.finish(x - radius)


TASK = Terrain("round-pads", 8, build, (-0.1, 0.8), "Cross a pit on six round pads.")
