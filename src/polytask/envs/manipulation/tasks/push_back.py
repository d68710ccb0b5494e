"""Pull a block towards the robot to a goal on the table."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.caging import LiveCage, live_cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw, place_at_rest
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Start, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05
_HEIGHT = 0.019936  # of the block's centre once it has settled on the table
_CAGE = LiveCage(radius=0.007, pad=0.05, xz=0.01, threshold=0.95, grip=0.003)


def place(vector: Tensor) -> Placement:
    """Put block and goal on the table; the vector's own heights are not used."""
    return place_at_rest(vector, _HEIGHT)


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward gripping combined with closeness to the goal, and more once a gripped block has moved 1 cm."""
    gap, gap_init = distance(s.obj, s.target), distance(s.obj_init, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, gap_init)
    held = (distance(s.obj, s.tcp) < 0.01) & (s.openness > 0) & (s.openness < 0.55) & (gap_init - gap > 0.01)
    moved = hamacher(live_cage(s, s.obj, _CAGE), in_place) + held * (1 + 5 * in_place)
    return torch.where(gap < _RADIUS, 10.0, moved), gap <= 0.07


def expert(look: Look) -> Tensor:
    """Grip the block from above and drag it to the goal."""
    hand, block = look.hand, look.obj
    gap, over = planar_gap(hand, block), (hand[:, 2] - block[:, 2]).abs()
    waypoint = first_of(
        (gap > 0.04, offset(block, z=0.15)),
        (over > 0.055, block),
        (look.openness > 0.6, block),
        otherwise=at_height(look.goal, 0.055),
    )
    away = (gap > 0.04) | (over > 0.055)
    return act(hand, waypoint, gain=10.0, effort=torch.where(away, -1.0, 0.9))


TASK = Task(
    name="push-back",
    summary="Pull a block back to a goal.",
    success_rule="block within 7 cm of the goal",
    start=Start((-0.1, 0.8, 0.02, -0.1, 0.6, 0.0199), (0.1, 0.85, 0.02, 0.1, 0.7, 0.0201), place, Separation(0.15)),
    shaped=Stages(bring("block to the goal", within=0.07), Hold((0.0, -0.008, 0.044), closed=0.65, empty=0.4)),
    scene="block",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
