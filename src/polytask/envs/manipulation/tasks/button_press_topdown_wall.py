"""Press a button from above, behind a low wall."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.button import half_closed, place_top, top_slots, topdown_reward
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset, planar_gap
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Start, Task


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward an open hand at the button and pressing it; the task without a wall rewards a closed hand."""
    return topdown_reward(s, s.openness)


def expert(look: Look) -> Tensor:
    """Move above the button with half-closed fingers, then press with both."""
    waypoint = first_of((planar_gap(look.hand, look.obj) > 0.04, offset(look.obj, z=0.1)), otherwise=look.obj)
    return act(look.hand, waypoint, gain=25.0, effort=half_closed(look))


TASK = Task(
    name="button-press-topdown-wall",
    summary="Reach over a wall and press the button from above.",
    success_rule="button's face within 2.4 cm of the mouth of the box",
    start=Start((-0.1, 0.8, 0.115), (0.1, 0.9, 0.115), place_top, hand=HAND_BACK),
    shaped=Stages(bring("press the button"), Hold((0.0, -0.003, 0.05), slack=0.04, reach=0.04)),
    scene="button_topdown_wall",
    slots=top_slots,
    reward=reward,
    expert=expert,
)
