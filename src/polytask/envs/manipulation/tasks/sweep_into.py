"""Sweep a block over a hole of the table."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.caging import LiveCage
from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.grasp import Grasp, grasp_and_carry
from polytask.envs.manipulation.shared.points import at_height, offset
from polytask.envs.manipulation.shared.sweeping import sweep_reward
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look, Placement, Separation, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import constant

_HOLE = (0.0, 0.84, 0.02)
_RESTING_HEIGHT = 0.0699355  # of the block on the raised table top, after it settled
_FINGERS = LiveCage(radius=0.02, pad=0.05, xz=0.01, threshold=0.95, grip=0.005)
_GRASP = Grasp(effort=0.3, closed=0.53)


def place(vector: Tensor) -> Placement:
    """Put the block on the table; the goal is always the hole, so the second half of the vector is unused."""
    block = at_height(vector, _RESTING_HEIGHT)
    return Placement(target=constant(_HOLE, vector).expand_as(block), obj_init=block, joints={"obj": block})


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward caging the block, and its horizontal closeness to the hole."""
    level = at_height(s.target, s.obj[:, 2])
    return sweep_reward(s, distance(s.obj, level), distance(s.obj_init, level), _FINGERS)


def expert(look: Look) -> Tensor:
    """Grasp the block and drag it over the hole."""
    grip = offset(look.obj, z=0.03)
    return grasp_and_carry(look, grip, at_height(look.goal, 0.12), _GRASP)


TASK = Task(
    name="sweep-into",
    summary="Sweep a block over a hole of the table.",
    success_rule="block within 5 cm of the hole's centre, seen from above",
    start=Start(
        (-0.1, 0.6, 0.02, -0.001, 0.8399, 0.0199), (0.1, 0.7, 0.02, 0.001, 0.8401, 0.0201), place, Separation(0.15)
    ),
    shaped=Stages(
        bring("block over the hole", within=0.05, along="xy"), Hold((0.004, 0.0, 0.028), closed=0.65, empty=0.28)
    ),
    scene="hole_table",
    slots=free_object_slots_xyzw,
    reward=reward,
    expert=expert,
)
