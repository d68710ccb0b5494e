"""Shared code of the tasks with the puck, on the free table or in front of the wall."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.caging import Cage
from polytask.envs.manipulation.shared.free_object import place_at_rest, place_object_and_goal
from polytask.envs.manipulation.task import Placement, Separation, Start

_HEIGHT = 0.0194047  # of the puck's centre once it has settled on the table
CAGE = Cage(radius=0.015, pad=0.05, xz=0.005, density="high")
# Starts with the goal at a point in space: above the free table, or behind the wall.
FREE_START = Start(
    (-0.1, 0.6, 0.02, -0.1, 0.8, 0.05), (0.1, 0.7, 0.02, 0.1, 0.9, 0.3), place_object_and_goal, Separation(0.15)
)
WALL_START = Start(
    (-0.05, 0.6, 0.015, -0.05, 0.85, 0.05), (0.05, 0.65, 0.015, 0.05, 0.9, 0.3), place_object_and_goal, Separation(0.15)
)


def place_on_table(vector: Tensor) -> Placement:
    """Put puck and goal on the table; the vector's own heights are not used."""
    return place_at_rest(vector, _HEIGHT)
