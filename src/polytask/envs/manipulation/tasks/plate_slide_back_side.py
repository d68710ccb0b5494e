"""Slide a plate sideways out of a cage."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.plate import drag, plate_reward, plate_slots, slides
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Start, Task


def place(vector: Tensor) -> Placement:
    """Place the cage, which rewards use as the plate's start, and the plate in front of it."""
    cage = vector[:, 0:3]
    return Placement(target=vector[:, 3:6], obj_init=cage, fixtures={"puck_goal": cage}, joints=slides(vector, x=-0.15))


def expert(look: Look) -> Tensor:
    """Press the closed fingers on the right half of the plate and drag it to the goal."""
    return drag(look, offset(look.obj, x=0.023, z=0.025), clearance=0.07, effort=1.0)


TASK = Task(
    name="plate-slide-back-side",
    summary="Slide a plate sideways out of a cage.",
    success_rule="plate within 7 cm of the goal",
    start=Start((-0.25, 0.6, 0.0, -0.05, 0.6, 0.015), (-0.25, 0.6, 0.0, 0.15, 0.6, 0.015), place),
    shaped=Stages(bring("plate to the goal", within=0.07), Hold((0.023, 0.0, 0.059))),
    scene="plate_side",
    slots=plate_slots,
    reward=plate_reward,
    expert=expert,
)
