"""How well a carried object keeps its initial orientation."""

from __future__ import annotations

from torch import Tensor

from polytask.sim.geometry import distance
from polytask.sim.view import constant

QUARTER_TURN = (0.707, 0.0, 0.0, 0.707)  # about z, as nuts and lids lie at the start of an episode


def straightness(quaternion: Tensor, slack: float, start: tuple[float, ...] = QUARTER_TURN) -> Tensor:
    """Return 1 for the initial orientation `start`, falling to 0 at quaternion distance `slack`. (N,)"""
    return (1 - distance(quaternion, constant(start, quaternion)) / slack).clamp(min=0.0)
