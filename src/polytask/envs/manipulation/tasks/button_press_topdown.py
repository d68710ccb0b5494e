"""Press a button from above."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.button import place_top, press_down, top_slots, topdown_reward
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Start, Task


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward a closed hand at the button and pressing it."""
    return topdown_reward(s, 1 - s.openness)


def expert(look: Look) -> Tensor:
    """Move above the button with a closed hand, then press."""
    return press_down(look, effort=1.0)


TASK = Task(
    name="button-press-topdown",
    summary="Press the button from above.",
    success_rule="button's face within 2.4 cm of the mouth of the box",
    start=Start((-0.1, 0.8, 0.115), (0.1, 0.9, 0.115), place_top, hand=HAND_BACK),
    shaped=Stages(bring("press the button", within=0.024), Hold((0.0, -0.003, 0.05), slack=0.04, reach=0.04)),
    scene="button_topdown",
    slots=top_slots,
    reward=reward,
    expert=expert,
)
