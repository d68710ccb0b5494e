"""The Terrain record: a parkour task is a function that lays out a tile, and the range of its difficulties.

Robot, observation and reward are the same for all of them; `polytask.envs.parkour` has those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from polytask.envs.parkour.course import Course, Tile

NUM_LEVELS = 10


@dataclass(frozen=True)
class Terrain:
    """One parkour task.

    Attributes:
        name: Kebab-case name.
        number: MTBench's number of the task; it also seeds the terrain, which is the same in every run.
        build: Lay out a course of a difficulty.
        low, high: The difficulty that `build` is called with on the first and on the last level.
        summary: One line for tables and the gallery.
        scene: Name of the scene it plays in.
        version: Raised by any change of the terrain.
    """

    name: str
    number: int
    build: Callable[[Course, float], None]
    low: float
    high: float
    summary: str
    scene: str = "parkour"
    version: int = 1

    def tile(self, variant: int, difficulty: float) -> Tile:
        """Lay out one of the random variants of a difficulty between 0 and 1."""
        return _tile(self, variant, difficulty)


@cache
def _tile(terrain: Terrain, variant: int, difficulty: float) -> Tile:
    course = Course(np.random.default_rng((terrain.number, variant)))
    terrain.build(course, terrain.low + difficulty * (terrain.high - terrain.low))
    course.walls()
    return course.tile()
