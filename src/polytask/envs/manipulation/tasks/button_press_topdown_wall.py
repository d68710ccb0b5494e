"""Press a button from above, behind a low wall."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from polytask.envs.manipulation.shared.button import half_closed, press_down, topdown_reward
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import Look
from polytask.envs.manipulation.tasks import button_press_topdown


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward an open hand at the button and pressing it; the task without a wall rewards a closed hand."""
    return topdown_reward(s, s.openness)


def expert(look: Look) -> Tensor:
    """Move above the button with half-closed fingers, then press with both."""
    return press_down(look, effort=half_closed(look))


TASK = replace(
    button_press_topdown.TASK,
    name="button-press-topdown-wall",
    summary="Reach over a wall and press the button from above.",
    scene="button_topdown_wall",
    reward=reward,
    expert=expert,
)
