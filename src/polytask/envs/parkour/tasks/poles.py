"""Wind through a row of poles."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain

_RADIUS, _TOP = 0.15, 1.0


def build(course: Course, difficulty: float) -> None:
    """Put the poles on the floor, with waypoints beside them on alternating sides.

    On the first three levels the original's last waypoint is behind the tile's wall; `Course.goal` moves it inside.
    """
    course.floor()
    distance = 2 - 1.15 * difficulty
    x, side = SPAWN + distance, 0.9 - 0.07 * difficulty
    for index in range(6):
        course.pole(x, 0.0, _RADIUS, _TOP)
        course.goal(x, side if index % 2 == 0 else -side)
        x += distance + 2 * _RADIUS
    course.goal(x + 0.5, 0.0)


TASK = Terrain("poles", 18, build, (-0.2, 0.8), "Wind through a row of poles.")
