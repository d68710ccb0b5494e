"""How well a carried object keeps its initial orientation."""

from __future__ import annotations

from torch import Tensor

from polytask.sim.geometry import distance
from polytask.sim.view import constant

_START = (0.707, 0.0, 0.0, 0.707)  # a quarter turn about z, as nuts and lids lie at the start of an episode


def straightness(quaternion: Tensor, slack: float) -> Tensor:
    """Return 1 for the initial orientation, falling to 0 at quaternion distance `slack`. (N,)"""
    return (1 - distance(quaternion, constant(_START, quaternion)) / slack).clamp(min=0.0)
