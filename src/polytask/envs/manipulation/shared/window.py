"""Shared code of the two tasks with the sliding window."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement
from polytask.sim.geometry import distance

_RADIUS = 0.05


def place_window(vector: Tensor, goal: float, opening: float) -> Placement:
    """Put the window at `vector` (N, 3), open by `opening`; the goal is relative to it, along x."""
    return Placement(
        target=offset(vector, x=goal),
        obj_init=vector,
        fixtures={"window": vector},
        joints={"window_slide": torch.full_like(vector[:, 0], opening)},
    )


def window_reward(s: State, handle_init: Tensor, margin: float, sigmoid: str) -> tuple[Tensor, Tensor]:
    """Reward closeness of the tool centre to the handle, combined with that of the handle to the goal along x.

    Args:
        s: State of the worlds.
        handle_init: Position of the handle at the start of the episode. (N, 3)
        margin: Distance along x at which the placing term is 0.1.
        sigmoid: Decay of the reaching term.
    """
    gap = (s.obj[:, 0] - s.target[:, 0]).abs()
    reach_margin = (distance(handle_init, s.tcp_init) - 0.02).abs()
    reached = tolerance(distance(s.obj, s.tcp), 0.0, 0.02, reach_margin, sigmoid=sigmoid)
    return 10 * hamacher(reached, tolerance(gap, 0.0, _RADIUS, margin)), gap <= _RADIUS


def slide_expert(look: Look, direction: float) -> Tensor:
    """Move to the side of the handle with a closed hand and push along x, +1 to the right or -1 to the left."""
    side = offset(look.obj, x=-0.02 * direction, z=0.03)
    error = look.hand - side
    ahead = error[:, 0] * direction
    is_beside = (ahead > -0.04) & (ahead < 0.04) & (error[:, 1].abs() < 0.02) & (error[:, 2].abs() < 0.03)
    waypoint = first_of(
        ((look.obj[:, 0] - look.goal[:, 0]).abs() < _RADIUS - 0.005, look.hand),
        (is_beside, offset(side, x=0.1 * direction)),
        (error[:, 0].abs() > 0.02, offset(side, y=-0.12)),
        otherwise=side,
    )
    return act(look.hand, waypoint, gain=25.0, effort=1.0)
