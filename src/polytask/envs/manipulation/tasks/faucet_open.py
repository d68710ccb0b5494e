"""Turn the handle of a faucet to the right, which opens it."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.faucet import (
    faucet_reward,
    faucet_slots,
    place_faucet,
    turn_handle,
)
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import BELOW_TABLE, HAND_BACK, Look, Placement, Slots, Start, Task
from polytask.sim.view import SceneView

_SIDE = 1.0


def place(vector: Tensor) -> Placement:
    """Place the faucet with the goal on its right."""
    return place_faucet(vector, _SIDE)


def slots(scene: SceneView) -> Slots:
    """Return the handle's tip on the side to push."""
    return faucet_slots(scene, "handleStartOpen")


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward reaching and turning the handle, measured 4 cm beside and 3 cm above the observed point."""
    return faucet_reward(s, offset(s.obj, x=-0.04, z=0.03))


def expert(look: Look) -> Tensor:
    """Push the handle to the right."""
    return turn_handle(look, _SIDE)


TASK = Task(
    name="faucet-open",
    summary="Turn a faucet's handle to the right.",
    success_rule="handle's tip within 7 cm of the goal",
    start=Start((-0.05, 0.8, 0.0), (0.05, 0.85, 0.0), place, hand=HAND_BACK),
    shaped=Stages(
        bring("push the handle right", within=0.05), Hold((-0.03, 0.015, 0.03), slack=0.04, reach=0.06, depth=0.04)
    ),
    scene="faucet",
    slots=slots,
    reward=reward,
    expert=expert,
    hand_low=BELOW_TABLE,
)
