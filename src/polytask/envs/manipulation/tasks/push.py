"""Push a puck across the table to a goal."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import tolerance
from polytask.envs.manipulation.shared.caging import cage
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.points import at_height, offset, planar_gap
from polytask.envs.manipulation.shared.puck import CAGE, place_on_table
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Separation, Start, Task
from polytask.sim.geometry import distance

_RADIUS = 0.05


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the puck and, once it is between the fingers, its closeness to the goal."""
    gap = distance(s.obj, s.target)
    in_place = tolerance(gap, 0.0, _RADIUS, distance(s.obj_init, s.target))
    caged = 2 * cage(s, s.obj, CAGE)
    is_held = (distance(s.obj, s.tcp) < 0.02) & (s.openness > 0)
    # Once the puck is held, the caging term counts twice, as in the original.
    dense = torch.where(is_held, 1 + 2 * caged + 5 * in_place, caged)
    return torch.where(gap < _RADIUS, 10.0, dense), gap <= _RADIUS


def expert(look: Look) -> Tensor:
    """Move above the puck, go down, close the fingers around it and drag it to the goal."""
    puck = offset(look.obj, x=-0.005)
    is_away = planar_gap(look.hand, puck) > 0.025
    height = look.hand[:, 2] - look.obj[:, 2]
    waypoint = first_of(
        (is_away, offset(puck, z=0.15)),
        ((height > 0.05) | (look.openness > 0.65), offset(puck, z=0.03)),
        # The puck slips between the fingers, so the hand corrects the error of the puck and not its own.
        otherwise=at_height(look.goal + look.hand - look.obj, 0.05),
    )
    return act(look.hand, waypoint, gain=10.0, effort=torch.where(is_away | (height > 0.1), 0.0, 0.8))


TASK = Task(
    name="push",
    summary="Push the puck to a goal on the table.",
    success_rule="puck within 5 cm of the goal",
    start=Start((-0.1, 0.6, 0.02, -0.1, 0.8, 0.01), (0.1, 0.7, 0.02, 0.1, 0.9, 0.02), place_on_table, Separation(0.15)),
    shaped=Stages(bring("puck to the goal", within=_RADIUS), Hold((0.0, 0.0, 0.036), closed=0.6, empty=0.4)),
    scene="puck",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
