"""Sweep a block to the right of the table."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.shared.caging import LiveCage
from polytask.envs.manipulation.shared.free_object import free_object_slots
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import at_height, offset
from polytask.envs.manipulation.shared.sweeping import sweep_reward
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Start, Task
from polytask.sim.geometry import distance

_GOAL_X, _GOAL_Z = 0.5, 0.01
_START_HEIGHT = 0.02  # of the block's underside, which is its origin: it falls at first
_FINGERS = LiveCage(radius=0.02, pad=0.05, xz=0.005, threshold=0.95, grip=0.01)
_GRASP = Grasp(effort=0.3, closed=0.53)


def place(vector: Tensor) -> Placement:
    """Put the block at the vector's position and the goal to its right, at the edge of the workspace."""
    block = at_height(vector, _START_HEIGHT)
    goal_x, goal_z = torch.full_like(vector[:, 0], _GOAL_X), torch.full_like(vector[:, 0], _GOAL_Z)
    return Placement(target=torch.stack([goal_x, vector[:, 1], goal_z], -1), obj_init=block, joints={"obj": block})


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the block, and its closeness to the goal."""
    return sweep_reward(s, distance(s.obj, s.target), distance(s.obj_init, s.target), _FINGERS)


def expert(look: Look) -> Tensor:
    """Grasp the block and carry it to the goal, close above the table."""
    return grasp_and_carry(look, offset(look.obj, z=0.05), offset(look.goal, z=0.06), _GRASP)


TASK = Task(
    name="sweep",
    summary="Sweep a block to the right of the table.",
    success_rule="block within 5 cm of the goal",
    start=Start((-0.1, 0.6, 0.02), (0.1, 0.7, 0.02), place),
    shaped=Stages(bring("block to the goal", within=0.05), Hold((0.0, 0.0, 0.047), closed=0.62, empty=0.4)),
    scene="sweep",
    slots=free_object_slots,
    reward=reward,
    expert=expert,
)
