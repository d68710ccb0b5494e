"""Put a block onto a shelf."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import Cage, cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, carry_over
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import constant

_RADIUS = 0.05
_HEIGHT = 0.019936  # of the block's centre once it has settled on the table
_BOARD = 0.24  # height of the board that carries the goal
_DEPTH = 0.15  # of the space under the board where the reward is reduced
_GENTLE = 0.2  # gripper effort; a harder grip presses the pads into the light block until it slips out
_CAGE = Cage(radius=0.02, pad=0.05, xz=0.01)
_HOLD = Hold((0.005, 0.0, 0.035), closed=0.6, empty=0.28)


def place(vector: Tensor) -> Placement:
    """Put the block on the table, and the shelf so that its goal is at the vector's second point."""
    block, goal = at_height(vector[:, 0:3], _HEIGHT), vector[:, 3:6]
    shelf = goal - constant((0.0, 0.0, 0.3), goal)
    return Placement(target=goal, obj_init=block, fixtures={"shelf": shelf}, joints={"obj": block})


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping and closeness to the goal, but not closeness from under the board."""
    o, gap = s.obj, distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    base = hamacher(cage(s, o, _CAGE), in_place)
    held = (distance(o, s.tcp) < 0.025) & (s.openness > 0) & (o[:, 2] - 0.01 > s.obj_init[:, 2])
    reachable = _discount_under_board(o, s.target, in_place)
    return torch.where(gap < _RADIUS, 10.0, base + held * (1 + 5 * reachable)), gap <= 0.07


def _discount_under_board(o: Tensor, target: Tensor, in_place: Tensor) -> Tensor:
    """Reduce the closeness the deeper and the lower a block is under the board."""
    past_goal, height = o[:, 1] - target[:, 1], o[:, 2]
    under = (height > 0) & (height < _BOARD) & ((o[:, 0] - target[:, 0]).abs() < 0.15)
    loss = hamacher((past_goal + _DEPTH) / _DEPTH, (_BOARD - height) / _BOARD)
    in_front = under & (past_goal > -_DEPTH) & (past_goal < 0)
    discounted = torch.where(in_front, (in_place - loss).clamp(0.0, 1.0), in_place)
    return torch.where(under & (past_goal > 0), 0.0, discounted)


def expert(look: Look) -> Tensor:
    """Grip the block, lift it in front of the shelf and move it in."""
    hand, block = look.hand, offset(look.obj, x=-0.005, z=0.04)
    gap, over = planar_gap(hand, block), (hand[:, 2] - block[:, 2]).abs()
    x, z = look.goal[:, 0], look.goal[:, 2] + 0.04
    waypoint = first_of(
        (gap > 0.03, offset(block, z=0.1)),
        ((over > 0.02) | (look.openness > 0.6), block),
        (((hand[:, 0] - x).abs() > 0.02) | (hand[:, 2] < 0.32), torch.stack([x, hand[:, 1], z], -1)),
        otherwise=at_height(look.goal, z),
    )
    away = (gap > 0.03) | (over > 0.05)
    grip = torch.where(look.openness > 0.6, 1.0, _GENTLE)
    return act(hand, waypoint, gain=15.0, effort=torch.where(away, -1.0, grip))


TASK = Task(
    name="shelf-place",
    summary="Pick a block up and place it on a shelf.",
    success_rule="block within 7 cm of the goal",
    start=Start((-0.1, 0.5, 0.019, -0.1, 0.8, 0.299), (0.1, 0.6, 0.021, 0.1, 0.9, 0.301), place, Separation(0.1)),
    shaped=Stages(carry_over("bring it onto the shelf", level=0.28, hole=0.0, within=0.07), _HOLD),
    scene="shelf",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
