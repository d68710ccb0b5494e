"""A funnel-shaped floor: the minimum height of hand or object, given its distance from where it may go down."""

from __future__ import annotations

from torch import Tensor


def funnel(radius: Tensor, hole: float | Tensor, steepness: float, level: float) -> Tensor:
    """Return the floor's height (N,): zero inside the hole, `steepness * ln(radius - hole) + level` outside."""
    beyond = radius - hole
    height = steepness * beyond.clamp(min=1e-12).log() + level
    return height * (beyond > 0)
