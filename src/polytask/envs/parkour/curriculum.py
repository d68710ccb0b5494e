"""The curriculum: which level a world goes to after an episode, by how many waypoints its robot reached."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.parkour.tasks import NUM_LEVELS

PROMOTED, DEMOTED = 7, 3  # at least and at most so many waypoints
WANDERS = 0.25  # chance of a random lower level in between
FIRST_LEVELS = 3  # worlds start on one of the lowest


def next_level(level: Tensor, goals: Tensor, uniform: Tensor) -> Tensor:
    """Return the levels (N,) after episodes in which so many goals (N,) were reached.

    Args:
        level: Levels of the episodes. (N,) int64
        goals: (N,) int64
        uniform: Random numbers in [0, 1). (N, 2)
    """
    wander, draw = uniform.unbind(-1)
    up = torch.where(level + 1 < NUM_LEVELS, level + 1, (draw * NUM_LEVELS).long())  # from the top anywhere
    lower = torch.where(wander < WANDERS, (draw * level).long(), level)
    return torch.where(goals >= PROMOTED, up, torch.where(goals <= DEMOTED, (level - 1).clamp_min(0), lower))
