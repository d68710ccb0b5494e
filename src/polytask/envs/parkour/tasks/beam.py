"""Balance along a beam over a pit."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the beam into the pit; as in the original's mesh, it is two cells narrower than its nominal width."""
    course.pit()
    segment, half_width = 0.5 + 1.5 * difficulty, (0.85 - 0.5 * difficulty) / 2 - CELL
    stop = SPAWN + 6 * segment
    course.block((SPAWN, stop), (-half_width, half_width), 0.0)
    for index in range(6):
        course.goal(SPAWN + (index + 0.5) * segment, 0.0)
    course.finish(stop)


TASK = Terrain("beam", 19, build, (0.3, 0.8), "Balance along a beam over a pit.")
