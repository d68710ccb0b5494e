"""Shared code of the two tasks that move the coffee mug."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, from_above
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Placement, Separation, Start
from polytask.sim.geometry import distance

Area = tuple[tuple[float, ...], tuple[float, ...]]

# Two areas for mug and goal, by their lowest and highest corners: under the machine and in front of it.
UNDER = (-0.05, 0.7, -0.001), (0.05, 0.75, 0.001)
BEFORE = (-0.1, 0.55, -0.001), (0.1, 0.65, 0.001)
_MUG = Cage(radius=0.02, pad=0.05, xz=0.05, effort=0.7, density="medium", reach=0.04)


def mug_start(mug: Area, goal: Area, place: Callable[[Tensor], Placement]) -> Start:
    """Return the start with the mug in one area and the goal in the other."""
    low, high = mug[0] + goal[0], mug[1] + goal[1]
    return Start(low, high, place, Separation(0.15, candidates=48), hand=HAND_BACK)


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
    waypoint = from_above(look.hand, mug, slack=(0.06, 0.02), clearance=0.15, then=goal)
    middle = offset(look.obj, x=0.01, z=0.05)
    far = (planar_gap(look.hand, middle) > 0.06) | ((look.hand[:, 2] - middle[:, 2]).abs() > 0.1)
    return act(look.hand, waypoint, gain=10.0, effort=torch.where(far, -1.0, effort))
