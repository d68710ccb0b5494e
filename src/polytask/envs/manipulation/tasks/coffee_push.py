"""Push a mug under the coffee machine."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.mug import BEFORE, UNDER, move_mug, mug_reward, mug_start, place_mug
from polytask.envs.manipulation.shared.points import at_height
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import Look, Placement, Task


def place(vector: Tensor) -> Placement:
    """Put the mug in front of the machine and the goal under it."""
    return place_mug(vector, under_machine=vector[:, 3:6])


def expert(look: Look) -> Tensor:
    """Grip the mug from above and carry it to the goal."""
    return move_mug(look, shift=0.01, goal=at_height(look.goal, 0.1), effort=0.5)


TASK = Task(
    name="coffee-push",
    summary="Push a mug under a coffee machine.",
    success_rule="mug within 7 cm of the goal",
    start=mug_start(BEFORE, UNDER, place),
    shaped=Stages(bring("mug to the goal", within=0.07), Hold((0.013, 0.0, 0.067), closed=0.7, empty=0.5)),
    scene="coffee",
    slots=free_object_slots_xyzw,
    reward=mug_reward,
    expert=expert,
)
