"""Walk on flat ground."""

from __future__ import annotations

from polytask.envs.parkour.course import GOALS, LENGTH, SPAWN, Course, snap
from polytask.envs.parkour.terrain import Terrain


def build(course: Course, difficulty: float) -> None:
    """Scatter waypoints over the floor."""
    course.ground(0.0, LENGTH)
    for index in range(GOALS):
        course.goal(SPAWN + 14.0 * index / (GOALS - 1), snap(course.uniform(-1.0, 0.95)))


TASK = Terrain("flat", 20, build, (0.0, 0.0), "Walk on flat ground.")
