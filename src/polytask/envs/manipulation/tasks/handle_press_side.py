"""Press down a handle that faces sideways."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.handle import PRESSED, RAISED, place_handle, press, press_reward, side, top_slots
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Start, Task


def place(vector: Tensor) -> Placement:
    """Place the box with its handle raised."""
    return place_handle(vector, side(PRESSED), RAISED)


def expert(look: Look) -> Tensor:
    """Move above the handle with closed fingers, then push down until it is at the goal."""
    return press(look, look.obj, effort=1.0)


TASK = Task(
    name="handle-press-side",
    summary="Press a handle down that faces sideways.",
    success_rule="top of the handle within 2 cm of the goal's height",
    start=Start((-0.35, 0.65, -0.001), (-0.25, 0.75, 0.001), place),
    shaped=Stages(bring("press the handle down", within=0.02, along="z"), Hold((0.008, 0.005, 0.028))),
    scene="handle_side",
    slots=top_slots,
    reward=press_reward,
    expert=expert,
)
