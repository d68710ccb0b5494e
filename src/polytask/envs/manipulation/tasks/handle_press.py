"""Press down a handle that faces the robot."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.handle import (
    FRONT_HIGH,
    FRONT_LOW,
    PRESSED,
    RAISED,
    front,
    place_handle,
    press,
    press_reward,
    top_slots,
)
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Start, Task


def place(vector: Tensor) -> Placement:
    """Place the box with its handle raised."""
    return place_handle(vector, front(PRESSED), RAISED)


def expert(look: Look) -> Tensor:
    """Move above the handle, then push down until it is at the goal."""
    return press(look, offset(look.obj, y=-0.02), effort=-1.0)


TASK = Task(
    name="handle-press",
    summary="Press a handle down.",
    success_rule="top of the handle within 2 cm of the goal's height",
    start=Start(FRONT_LOW, FRONT_HIGH, place),
    shaped=Stages(
        bring("press the handle down", within=0.02, along="z"), Hold((0.0, -0.025, 0.01), reach=0.04, depth=0.04)
    ),
    scene="handle",
    slots=top_slots,
    reward=press_reward,
    expert=expert,
)
