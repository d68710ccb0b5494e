"""Climb and descend flights of stairs as wide as the tile."""

from __future__ import annotations

from polytask.envs.parkour.course import GOALS, LENGTH, SPAWN, Course
from polytask.envs.parkour.terrain import Terrain

_STEPS, _LANDING = 6, 5  # steps of a flight, treads of the landing after it


def build(course: Course, difficulty: float) -> None:
    """Add five flights, alternately up and down; the last landing continues to the end of the tile."""
    course.ground(0.0, SPAWN)
    x, top, tread = SPAWN, 0.0, 0.25 - 0.1 * difficulty
    for flight in range(5):
        riser = course.uniform(0.05 + 0.1 * difficulty, 0.07 + 0.15 * difficulty) + 0.05 * (flight // 2)
        for step in range(_STEPS):
            top += riser if flight % 2 == 0 else -riser
            treads = 1 if step < _STEPS - 1 else 1 + _LANDING
            is_last = flight == 4 and step == _STEPS - 1
            course.ground(x, LENGTH if is_last else x + treads * tread, top)
            x += treads * tread
    for index in range(GOALS):
        course.goal(SPAWN + (x - SPAWN) * index / (GOALS - 1), 0.0)


TASK = Terrain("wide-stairs", 13, build, (-0.1, 0.7), "Climb and descend wide flights of stairs.")
