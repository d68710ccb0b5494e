"""Cross a pit on twelve round stones in pairs."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the stones into the pit, alternately on the right and on the left."""
    course.pit()
    radius = (7 - 3.5 * difficulty) * CELL
    x = SPAWN + radius
    for _ in range(6):
        gap = course.uniform(0.05 + 0.05 * difficulty, 0.1 + 0.07 * difficulty)
        offset = snap(course.uniform(0.15 - 0.05 * difficulty, 0.2 - 0.05 * difficulty))
        left = x + gap + radius / 3
        course.disc(x, -offset, radius, course.uniform(0.0, 0.07 * difficulty), boxes=3)
        course.disc(left, radius + offset, radius, course.uniform(0.0, 0.07 * difficulty), boxes=3)
        course.goal((x + left) / 2, radius / 2)
        x = left + 1.5 * gap + radius
    course.finish(x - radius)


TASK = Terrain("round-stones", 11, build, (-0.4, 0.9), "Cross a pit on twelve round stones.")
