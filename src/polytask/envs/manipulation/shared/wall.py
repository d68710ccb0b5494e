"""Shared code of the tasks with a wall, 24 cm wide and 12 cm high, across the table at y = 0.75."""

from __future__ import annotations

from torch import Tensor

from polytask.sim.view import constant

_FRONT, _BACK = 0.60, 0.80  # range of y in which the hand may hit the wall


def near_wall(hand: Tensor, left: float, right: float, height: float) -> Tensor:
    """Return whether the hand is at the wall, between `left` and `right` in x, and below `height`. (N,) bool"""
    low, high = constant((left, _FRONT, -1.0), hand), constant((right, _BACK, height), hand)
    return ((hand >= low) & (hand <= high)).all(-1)
