"""Go up six ramps and drop off their ends."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the ramps on the floor."""
    course.floor()
    x, half_width = SPAWN, 0.75 - 0.25 * difficulty
    for _ in range(6):
        length, y = 1.2 - 0.5 * difficulty + course.uniform(-0.2, 0.2), course.uniform(-0.1, 0.1)
        top = course.uniform(0.1 + 0.5 * difficulty, 0.2 + 0.6 * difficulty)
        course.ramp((x, x + length), (y - half_width, y + half_width), 0.0, top, fillings=4)
        course.goal(x + length / 2, y)
        x += length + 0.1 + 0.7 * difficulty
    course.goal(x + 0.5, 0.0)


TASK = Terrain("plain-ramp", 3, build, (0.2, 0.6), "Go up six ramps and drop off their high ends.", version=2)
