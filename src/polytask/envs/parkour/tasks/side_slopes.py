"""Cross a pit on six platforms that tilt to the left or to the right."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the platforms into the pit, each as a slab on a block; a level cell makes the high edge vertical."""
    course.pit()
    gap = 0.1 + 0.65 * difficulty
    x = SPAWN + gap
    for _ in range(6):
        length, y = 1.2 - 0.5 * difficulty + course.uniform(-0.1, 0.1), snap(course.uniform(-0.1, 0.1))
        top = course.uniform(0.05 + 0.25 * difficulty, 0.05 + 0.5 * difficulty)
        span = (x, x + length)
        rises = course.uniform(0.0, 1.0) < 0.5
        y -= 0.0 if rises else 0.5
        low, high = (y - 0.5, y + 0.5) if rises else (y + 0.5, y - 0.5)  # edges at the foot and at the top of the slope
        crest = high - CELL if rises else high + CELL
        heights = (0.0, top) if rises else (top, 0.0)
        course.slab(span, (min(low, crest), max(low, crest)), *heights, along_y=True)
        course.block(span, (min(crest, high), max(crest, high)), top)
        for part in (0.25, 0.5, 0.75):  # blocks below the slab, so that no leg gets under it
            edge = low + part * (crest - low)
            course.block(span, (min(edge, crest), max(edge, crest)), part * top - min(0.1 * top, 0.02))
        course.block(span, (y - 0.5, y + 0.5), 0.0)
        course.goal(x + length / 2, y)
        x += length + gap
    course.finish(x)


TASK = Terrain("side-slopes", 10, build, (0.0, 0.9), "Cross a pit on six platforms that tilt sideways.", version=2)
