"""Compute the random vectors that place an episode, from uniform numbers that are already drawn.

Redrawing until a constraint holds would need a loop that depends on data. Instead, the first valid candidate out of a
fixed number is used. This number is so large that all are invalid with a probability below one in a hundred million.
"""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.task import Start
from polytask.sim.geometry import distance
from polytask.sim.view import constant


def candidates(start: Start) -> int:
    """Return the number of candidates for the random vector of a task."""
    return 1 if start.separation is None else start.separation.candidates


def draw(start: Start, uniform: Tensor) -> Tensor:
    """Return random vectors (N, R) from uniform numbers in [0, 1). (N, at least the task's candidates, at least R)"""
    low, high = constant(start.low, uniform), constant(start.high, uniform)
    drawn = low + (high - low) * uniform[:, : candidates(start), : len(start.low)]  # (N, C, R)
    if start.separation is None:
        return drawn[:, 0]
    (a0, a1), (b0, b1) = start.separation.a, start.separation.b
    valid = distance(drawn[..., a0:a1], drawn[..., b0:b1]) >= start.separation.distance  # (N, C)
    first = valid.to(torch.uint8).argmax(1)  # index of the first maximum; 0 where none is valid
    return drawn.gather(1, first[:, None, None].expand(-1, 1, drawn.shape[-1]))[:, 0]
