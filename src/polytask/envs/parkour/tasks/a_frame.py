"""Go up and down six roof-shaped frames."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain


def build(c: Course, s: float) -> None:
    """Put the frames on the floor, each as two slabs on a block that is as high as the first step."""
    c.floor()
    x, half_width = SPAWN, 0.75 - 0.25 * s
    for _ in range(6):
        length, y = 1.0 - 0.4 * s + c.uniform(-0.2, 0.2), c.uniform(-0.1, 0.1)
        step = c.uniform(0.01 + 0.05 * s, 0.03 + 0.03 * s)
        top = step + c.uniform(0.1 + 0.6 * s, 0.15 + 0.6 * s)
        start, ridge, stop = snap(x), snap(x + length), snap(x + 2 * length)
        sides = (y - half_width, y + half_width)
        c.block((start, stop), sides, step)
        c.slab((start, ridge), sides, step, top)
        c.slab((ridge, stop), sides, top, step)
        c.block(((start + ridge) / 2, (ridge + stop) / 2), sides, (step + top) / 2 - 0.05)
        c.goal(ridge, y)
        x += 2 * length + 0.1 + 0.7 * s
    c.goal(x + 0.5, 0.0)


TASK = Terrain("a-frame", 4, build, (0.35, 0.7), "Go up and down six frames like roofs.")
