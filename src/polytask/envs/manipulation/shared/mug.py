"""Shared code of the two tasks that move the coffee mug."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement
from polytask.sim.geometry import distance

_MUG = Cage(radius=0.02, pad=0.05, xz=0.05, effort=0.7, density="medium", reach=0.04)


def place_mug(vector: Tensor, under_machine: Tensor) -> Placement:
    """Put the mug at the vector's first point, the goal at its second and the machine over `under_machine`."""
    mug, goal = vector[:, 0:3], vector[:, 3:6]
    return Placement(
        target=goal, obj_init=mug, fixtures={"coffee_machine": offset(under_machine, y=0.22)}, joints={"obj": mug}
    )


def mug_reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the mug and, once it is caged, its closeness to the goal; planar errors count double."""
    scale = s.constant(2.0, 2.0, 1.0)
    goal = scale * s.target
    gap = distance(scale * s.obj, goal)
    in_place = tolerance(gap, 0.0, 0.05, distance(scale * s.obj_init, goal))
    held = (distance(s.obj, s.tcp) < 0.04) & (s.openness > 0)
    dense = hamacher(cage(s, s.obj, _MUG), in_place) + held * (1 + 5 * in_place)
    # Success is less strict than the reward: it uses the unscaled distance.
    return dense.masked_fill(gap < 0.05, 10.0), distance(s.obj, s.target) <= 0.07


def move_mug(look: Look, shift: float, goal: Tensor, effort: float) -> Tensor:
    """Grip the mug from above, `shift` along x from its middle, and move to `goal`."""
    mug = offset(look.obj, x=shift, z=0.05)
    waypoint = first_of(
        (planar_gap(look.hand, mug) > 0.06, offset(mug, z=0.15)),
        ((look.hand[:, 2] - mug[:, 2]).abs() > 0.02, mug),
        otherwise=goal,
    )
    middle = offset(look.obj, x=0.01, z=0.05)
    far = (planar_gap(look.hand, middle) > 0.06) | ((look.hand[:, 2] - middle[:, 2]).abs() > 0.1)
    return act(look.hand, waypoint, gain=10.0, effort=torch.where(far, -1.0, effort))
