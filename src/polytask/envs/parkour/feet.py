"""The scan of the feet: heights of the ground at 3 x 3 points around each foot, 5 cm apart, new in every control step.

The points lie along the robot's heading and across it, as those of the height scan do, and show the same quantity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.parkour.tiles import Tiles
from polytask.robots.go1 import LEGS, Motion
from polytask.sim.view import constant

STEPS, SPACING = (-1, 0, 1), 0.05  # points of a foot along and across, in spacings; metres between them
POINTS = len(STEPS) ** 2  # of a foot
FOOT_SCAN = LEGS * POINTS
_AHEAD = tuple(SPACING * row for row in STEPS for _ in STEPS)  # metres of each point from the foot
_LEFT = tuple(SPACING * column for _ in STEPS for column in STEPS)


def scan_of_feet(tiles: Tiles, tile: Tensor, feet: Tensor, motion: Motion) -> Tensor:
    """Return the height of the trunk above the ground near the feet, less 0.3 m and within -1 to 1. (N, 36)

    Args:
        tiles: The tiles.
        tile: Index of each robot's tile. (N,)
        feet: Positions of the feet. (N, 4, 3)
        motion: State of the robots.
    """
    ahead, left = constant(_AHEAD, feet), constant(_LEFT, feet)  # (9,) each
    cosine, sine = torch.cos(motion.yaw)[:, None, None], torch.sin(motion.yaw)[:, None, None]
    x = feet[..., :1] + cosine * ahead - sine * left  # (N, 4, 9)
    y = feet[..., 1:2] + sine * ahead + cosine * left
    ground = tiles.ground_at(tile[:, None, None], x, y)
    return (motion.position[:, 2, None, None] - 0.3 - ground).clamp(-1.0, 1.0).flatten(1)
