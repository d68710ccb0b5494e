"""Move a cube from one bin to the other."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots
from polytask.envs.manipulation.shared.funnel import above_funnel, funnel
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, carry_over
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import constant

_CUBE = Cage(radius=0.015, pad=0.05, xz=0.01, effort=0.7, density="high")
_RADIUS = 0.05
_BIN = (0.12, 0.7, 0.0)  # the goal bin never moves
_REST = 0.0299951  # height of the cube at rest in its bin
_HOLD = Hold((-0.001, 0.0, 0.036), closed=0.6, empty=0.38)


def place(vector: Tensor) -> Placement:
    """Put the cube into its bin; the vector's height and second point are ignored."""
    cube = at_height(vector[:, 0:3], _REST)
    return Placement(target=constant(_BIN, vector).expand(len(vector), 3), obj_init=cube, joints={"obj": cube})


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the cube and, once it is held, carrying it over the bins' walls to the goal."""
    gap = distance(s.obj, s.target)
    # A cube that starts inside the bin's wall is pushed away in the first step, so the margin is the distance after it.
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.first_obj, s.target))
    floor = torch.minimum(*(funnel(planar_gap(s.hand, c), 0.03, 0.02, 0.2) for c in (s.obj_init, s.target)))
    above = above_funnel(s.hand, floor, 0.05)
    held = (distance(s.obj, s.hand) < 0.04) & (s.obj[:, 2] - 0.02 > s.obj_init[:, 2]) & (s.openness >= 0.43)
    dense = hamacher(cage(s, s.obj, _CUBE), in_place) + held * (1 + 5 * hamacher(above, in_place))
    return dense.masked_fill(gap < _RADIUS, 10.0), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Grip the cube, keeping the fingers off the bin's walls, lift it over and lower it into the other bin."""
    hand, bin_floor = look.hand, constant((*_BIN[:2], 0.02), look.hand).expand_as(look.hand)
    # Near a wall the fingers go down further inside and drag the cube along as they close.
    y = look.obj[:, 1].clamp(0.668, 0.732)
    cube = torch.stack([look.obj[:, 0], y, look.obj[:, 2] + 0.03], -1)
    beside = planar_gap(hand, cube) > 0.02
    high = (hand[:, 2] - cube[:, 2]).abs() > 0.02
    outside = planar_gap(hand, bin_floor) > 0.02
    waypoint = first_of(
        (beside, offset(cube, z=0.15)),
        (high | (look.openness > 0.65), cube),
        (outside & (hand[:, 2] < 0.15), offset(hand, z=0.1)),
        (outside, at_height(bin_floor, 0.18)),
        otherwise=bin_floor,
    )
    return act(hand, waypoint, gain=25.0, effort=torch.where(beside | high, -1.0, 0.8))


TASK = Task(
    name="bin-picking",
    summary="Move a cube from one bin to the other.",
    success_rule="cube within 5 cm of the middle of the goal bin's floor",
    start=Start((-0.21, 0.65, 0.02, 0.1199, 0.699, -0.001), (-0.03, 0.75, 0.02, 0.1201, 0.701, 0.001), place),
    shaped=Stages(carry_over("bring it into the other bin", level=0.11, hole=0.06, within=_RADIUS), _HOLD),
    scene="bins",
    slots=free_object_slots,
    reward=reward,
    expert=expert,
    hand_low=(-0.5, 0.4, 0.07),
    keeps_first_obj=True,
    version=2,
)
