"""Slide a plate out of a cage, towards the robot."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.plate import drag, plate_reward, plate_slots, slides
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Start, Task


def place(vector: Tensor) -> Placement:
    """Put the plate in front of the cage; rewards use the cage, 10 cm farther, as the plate's start."""
    return Placement(target=vector[:, 3:6], obj_init=vector[:, 0:3], joints=slides(vector, y=0.15))


def expert(look: Look) -> Tensor:
    """Press one of the open fingers on the plate and drag it to the goal."""
    return drag(look, offset(look.obj, y=-0.065, z=0.025), clearance=0.1, effort=-1.0)


TASK = Task(
    name="plate-slide-back",
    summary="Slide a plate out of a cage.",
    success_rule="plate within 7 cm of the goal",
    start=Start((0.0, 0.85, 0.0, -0.1, 0.6, 0.015), (0.0, 0.85, 0.0, 0.1, 0.6, 0.015), place),
    shaped=Stages(bring("plate to the goal", within=0.07), Hold((0.003, -0.064, 0.058))),
    scene="plate",
    slots=plate_slots,
    reward=plate_reward,
    expert=expert,
)
