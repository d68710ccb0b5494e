"""The Terrain record: a parkour task consists of a function that builds a tile and a range of difficulties.

Robot, observation and reward are the same for all parkour tasks; they are in `polytask.envs.parkour`.
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
        number: MTBench's number of the task; it also seeds the terrain, so the terrain is the same in every run.
        build: Build a course of a given difficulty.
        difficulty: The difficulty that `build` gets on the first and on the last level.
        summary: One line for tables and the gallery.
        scene: Name of its scene.
        version: Increases with any change of the terrain.
    """

    name: str
    number: int
    build: Callable[[Course, float], None]
    difficulty: tuple[float, float]
    summary: str
    scene: str = "parkour"
    version: int = 1

    def tile(self, variant: int, share: float) -> Tile:
        """Build one of the random variants at a share of the way from the first difficulty (0) to the last one (1)."""
        return _tile(self, variant, share)


@cache
def _tile(terrain: Terrain, variant: int, share: float) -> Tile:
    course = Course(np.random.default_rng((terrain.number, variant)))
    first, last = terrain.difficulty
    terrain.build(course, first + share * (last - first))
    course.walls()
    return course.tile()
