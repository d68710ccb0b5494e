"""Pull a mug out from under the coffee machine."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.free_object import free_object_slots_xyzw
from polytask.envs.manipulation.shared.mug import move_mug, mug_reward, place_mug
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.task import HAND_BACK, Look, Placement, Separation, Start, Task


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
    start=Start(
        (-0.05, 0.7, -0.001, -0.1, 0.55, -0.001),
        (0.05, 0.75, 0.001, 0.1, 0.65, 0.001),
        place,
        Separation(0.15, candidates=48),
        hand=HAND_BACK,
    ),
    shaped=Stages(bring("mug to the goal"), Hold((-0.003, 0.0, 0.068), closed=0.7, empty=0.5)),
    scene="coffee",
    slots=free_object_slots_xyzw,
    reward=mug_reward,
    expert=expert,
)
