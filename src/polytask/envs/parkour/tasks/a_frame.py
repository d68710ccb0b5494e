"""Go up and down six roof-shaped frames."""

from __future__ import annotations

from polytask.envs.parkour.course import SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Put the frames on the floor, each on a block that is as high as the first step."""
    course.floor()
    x, half_width = SPAWN, 0.75 - 0.25 * difficulty
    for _ in range(6):
        length, y = 1.0 - 0.4 * difficulty + course.uniform(-0.2, 0.2), course.uniform(-0.1, 0.1)
        step = course.uniform(0.01 + 0.05 * difficulty, 0.03 + 0.03 * difficulty)
        top = step + course.uniform(0.1 + 0.6 * difficulty, 0.15 + 0.6 * difficulty)
        course.roof((x, x + length, x + 2 * length), (y - half_width, y + half_width), step, top)
        course.goal(snap(x + length), y)
        x += 2 * length + 0.1 + 0.7 * difficulty
    course.goal(x + 0.5, 0.0)


TASK = Terrain("a-frame", 4, build, (0.35, 0.7), "Go up and down six frames like roofs.", version=2)
