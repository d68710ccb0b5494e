"""Pass through six narrow slots between walls."""

from __future__ import annotations

from polytask.envs.parkour.course import CELL, SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain

_WALL_WIDTH, _WALL_TOP = 0.5, 0.7


def build(course: Course, difficulty: float) -> None:
    """Put pairs of walls on the floor; as in the original's mesh, a slot is one cell wider than its nominal width."""
    course.floor()
    x = SPAWN
    for _ in range(6):
        length, y = 0.6 + 0.4 * difficulty + course.uniform(-0.1, 0.1), snap(course.uniform(-0.1, 0.1))
        half = (snap(course.uniform(0.5 - 0.15 * difficulty, 0.6 - 0.15 * difficulty)) + CELL) / 2
        low = snap(y - half)
        high = low + 2 * half
        course.block((x, x + length), (low - _WALL_WIDTH, low), _WALL_TOP)
        course.block((x, x + length), (high, high + _WALL_WIDTH), _WALL_TOP)
        course.goal(x + length / 2, (low + high) / 2)
        x += length + course.uniform(0.4 - 0.1 * difficulty, 0.5 - 0.1 * difficulty)
    course.goal(x + 0.5, 0.0)


TASK = Terrain("squeeze", 17, build, (-0.2, 0.8), "Pass through six narrow slots.")
