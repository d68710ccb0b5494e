"""Draw the random vectors that place an episode, from uniform numbers that were drawn beforehand.

Redrawing until a constraint holds would need a loop on data. Instead a fixed number of candidates is prepared and the
first valid one is taken; with the constraints in use, all being invalid has a probability below one in a million.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.rewards import distance
from polytask.tasks.state import constant
from polytask.tasks.task import Task

CANDIDATES = 8


def draw(task: Task, uniform: Tensor) -> Tensor:
    """Return random vectors (N, R) from uniform numbers in [0, 1). (N, CANDIDATES, at least R)"""
    low, high = constant(task.low, uniform), constant(task.high, uniform)
    candidates = low + (high - low) * uniform[:, :, : len(task.low)]  # (N, C, R)
    if task.separation is None:
        return candidates[:, 0]
    (a0, a1), (b0, b1) = task.separation.a, task.separation.b
    valid = distance(candidates[..., a0:a1], candidates[..., b0:b1]) >= task.separation.distance  # (N, C)
    first = valid.to(torch.uint8).argmax(1)  # the first maximum: 0 where none is valid
    return candidates.gather(1, first[:, None, None].expand(-1, 1, candidates.shape[-1]))[:, 0]
