"""Step up onto six ramps, go up to their end and drop down."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the ramps on the floor, each on a block that is as high as its lip."""
    course.floor()
    x, half_width = SPAWN, course.uniform(0.5, 1.0)
    for _ in range(6):
        length, y = 1.2 - 0.3 * difficulty + course.uniform(-0.3, 0.3), course.uniform(-0.1, 0.1)
        lip = course.uniform(0.1 + 0.2 * difficulty, 0.15 + 0.2 * difficulty)
        rise = course.uniform(0.03 + 0.25 * difficulty, 0.05 + 0.3 * difficulty)
        span, sides = (x, x + length), (y - half_width, y + half_width)
        course.block(span, sides, lip)
        course.ramp(span, sides, lip, lip + rise)
        course.goal(x + length / 2, y)
        x += length + 0.7 + 0.3 * difficulty
    course.goal(x + 0.5, 0.0)


TASK = Terrain("lipped-ramp", 1, build, (0.4, 0.8), "Step onto six ramps and drop off their high ends.")
