"""The scripted motion that several experts share: move down onto an object, close the fingers, carry it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.task import Look

_LAG = 0.04  # how far a held object may lag behind the hand


@dataclass(frozen=True)
class Grasp:
    """Parameters of a grasp.

    Attributes:
        effort: Gripper effort that holds the object.
        closed: Openness below which the object counts as held.
        slack: Horizontal distance from the grip within which the hand may go down.
        clearance: Height above the grip at which the hand approaches.
        gain: Action per metre of error.
    """

    effort: float
    closed: float
    slack: float = 0.02
    clearance: float = 0.1
    gain: float = 16.0


def grasp_and_carry(look: Look, grip: Tensor, carry: Tensor, g: Grasp) -> Tensor:
    """Return the action (N, 4) of an expert that grasps at `grip` (N, 3) and then moves to `carry` (N, 3)."""
    above = look.hand[:, 2] - grip[:, 2] > 0.02
    # Align precisely before going down, but do not release an object because it lags behind.
    aside = planar_gap(look.hand, grip) > torch.where(above, g.slack, _LAG)
    loose = look.openness > g.closed
    waypoint = first_of((aside, offset(grip, z=g.clearance)), (above | loose, grip), otherwise=carry)
    # Close fast, but slow down in time: the fingers would penetrate light objects at full effort.
    effort = (g.effort + 1.5 * (look.openness - g.closed).clamp(min=0.0)).clamp(max=1.0)
    return act(look.hand, waypoint, g.gain, torch.where(aside | above, -1.0, effort))
