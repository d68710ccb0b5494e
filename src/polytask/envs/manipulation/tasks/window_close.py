"""Slide a window shut."""

from __future__ import annotations

from torch import Tensor

from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.shared.window import place_window, slide_expert, window_reward
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Placement, Slots, Start, Task
from polytask.sim.view import SceneView


def place(vector: Tensor) -> Placement:
    """Place the window, 20 cm open."""
    return place_window(vector, goal=0.0, opening=0.2)


def slots(scene: SceneView) -> Slots:
    """Return the side of the handle to push from, and no orientation."""
    return Slots(obj=scene.site("handleCloseStart"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward reaching the handle, combined with its closeness to the goal."""
    return window_reward(s, offset(s.vector, x=0.21, y=-0.095), margin=0.16, sigmoid="gaussian")


def expert(look: Look) -> Tensor:
    """Push the handle to the left."""
    return slide_expert(look, direction=-1.0)


TASK = Task(
    name="window-close",
    summary="Slide the window shut.",
    success_rule="handle within 5 cm of the goal along x",
    start=Start((0.0, 0.75, 0.2), (0.0, 0.9, 0.2), place, hand=HAND_BACK),
    shaped=Stages(
        bring("slide the window", within=0.05, along="x"), Hold((0.002, 0.007, 0.029), side="the front", slack=0.035)
    ),
    scene="window",
    slots=slots,
    reward=reward,
    expert=expert,
)
