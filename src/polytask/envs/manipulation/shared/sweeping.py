"""The reward that sweep and sweep-into share."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import LiveCage, live_cage
from polytask.envs.manipulation.state import State

_RADIUS = 0.05


def sweep_reward(s: State, gap: Tensor, margin: Tensor, fingers: LiveCage) -> tuple[Tensor, Tensor]:
    """Reward caging the block, and bringing it to the goal while it is caged.

    Args:
        s: State of the worlds.
        gap: Distance of the block to the goal. (N,)
        margin: Gap at the start of the episode. (N,)
        fingers: Parameters of caging the block.
    """
    grasp = live_cage(s, s.obj, fingers)
    paid = 2 * grasp + 6 * hamacher(grasp, tolerance(gap, 0.0, _RADIUS, margin))
    return paid.masked_fill(gap < _RADIUS, 10.0), gap <= _RADIUS
