"""A funnel-shaped floor: the minimum height of hand or object, given its distance from where it may go down."""

from __future__ import annotations

import math

from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance

_SLACK = 0.01  # a point may be this far below the floor without losing reward


def funnel(radius: Tensor, hole: float | Tensor, steepness: float, level: float) -> Tensor:
    """Return the floor's height (N,): zero inside the hole, `steepness * ln(radius - hole) + level` outside."""
    beyond = radius - hole
    height = steepness * beyond.clamp(min=1e-12).log() + level
    return height * (beyond > 0)


def above_funnel(point: Tensor, floor: Tensor, margin: float | Tensor) -> Tensor:
    """Return 1 where a point (N, 3) is above the floor's height (N,), and less the deeper it is below it.

    The value is 0.1 at `margin` below the slack.
    """
    return tolerance(floor - point[:, 2], -math.inf, _SLACK, margin)
