"""The curriculum: the level of a world after an episode depends on the number of waypoints reached.

A world may also revisit: play an episode on an easier level than its own, so that easy terrain is not forgotten.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.parkour.tasks import NUM_LEVELS

PROMOTED, DEMOTED = 7, 3  # waypoints: at least 7 move a world up, at most 3 move it down
RANDOM_DROP = 0.25  # probability of a random lower level after 4 to 6 waypoints
FIRST_LEVELS = 3  # worlds start on one of the lowest three levels


def next_level(level: Tensor, goals: Tensor, uniform: Tensor) -> Tensor:
    """Return the next levels (N,), given the number of goals that the last episodes reached.

    Args:
        level: Levels of the episodes. (N,) int64
        goals: Number of goals reached. (N,) int64
        uniform: Random numbers in [0, 1). (N, 2)
    """
    chance, draw = uniform.unbind(-1)
    up = torch.where(level + 1 < NUM_LEVELS, level + 1, (draw * NUM_LEVELS).long())  # from the top to a random level
    lower = torch.where(chance < RANDOM_DROP, (draw * level).long(), level)
    return torch.where(goals >= PROMOTED, up, torch.where(goals <= DEMOTED, (level - 1).clamp_min(0), lower))


def played_level(level: Tensor, uniform: Tensor, revisit: float) -> Tensor:
    """Return the levels (N,) of the next episodes: a world's own level or, with chance `revisit`, an easier one.

    Args:
        level: The worlds' own levels. (N,) int64
        uniform: Random numbers in [0, 1). (N, 2)
        revisit: Probability of an easier level.
    """
    chance, draw = uniform.unbind(-1)
    return torch.where(chance < revisit, (draw * level).long(), level)
