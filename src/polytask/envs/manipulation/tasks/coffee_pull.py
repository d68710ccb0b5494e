"""Pull a mug out from under the coffee machine."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.mug import BEFORE, UNDER, move_mug, mug_reward, mug_start, place_mug
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Task


def place(vector: Tensor) -> Placement:
    """Put the mug under the machine and the goal in front of it."""
    return place_mug(vector, under_machine=vector[:, 0:3])


def expert(look: Look) -> Tensor:
    """Grip the mug from above and drag it to the goal."""
    return move_mug(look, shift=-0.005, goal=look.goal, effort=0.7)


TASK = Task(
    name="coffee-pull",
    summary="Pull a mug out from under a coffee machine.",
    success_rule="mug within 7 cm of the goal",
    start=mug_start(UNDER, BEFORE, place),
    shaped=Stages(bring("mug to the goal", within=0.07), Hold((-0.003, 0.0, 0.068), closed=0.7, empty=0.5)),
    scene="coffee",
    slots=free_object_slots_xyzw,
    reward=mug_reward,
    expert=expert,
)
