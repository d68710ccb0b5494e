"""Press the button of a coffee machine."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.shared.expert import act, first_of
from polytask.envs.manipulation.shared.points import offset
from polytask.envs.manipulation.stages import Hold, Stages, bring
from polytask.envs.manipulation.state import State
from polytask.envs.manipulation.task import HAND_BACK, Look, Placement, Slots, Start, Task
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView

_NEAR = 0.05


def place(vector: Tensor) -> Placement:
    """Place the machine with the mug under it; the goal is the button pressed to its stop."""
    return Placement(
        target=offset(vector, y=-0.19, z=0.3),
        obj_init=vector,
        fixtures={"coffee_machine": vector},
        joints={"obj": offset(vector, y=-0.22)},
    )


def slots(scene: SceneView) -> Slots:
    """Return the button's face, and the orientation of the machine, which never turns."""
    return Slots(obj=scene.site("buttonStart"), obj_quat=scene.body_quat("coffee_machine"))


def reward(s: State) -> tuple[Tensor, Tensor]:
    """Reward open fingers near the button and, if they are near, pressing it."""
    reach = distance(s.obj, s.tcp)
    near = tolerance(reach, 0.0, _NEAR, distance(s.obj, s.tcp_init))
    left = (s.target[:, 1] - s.obj[:, 1]).abs()
    pressed = tolerance(left, 0.0, 0.005, 0.03)
    return 2 * hamacher(s.openness, near) + 8 * pressed * (reach <= _NEAR), left <= 0.02


def expert(look: Look) -> Tensor:
    """Line up in front of the button, with closed fingertips level with its upper half, and push it in.

    At this height the palm passes over the machine's head, which would otherwise stop the hand too early.
    """
    hand = look.hand
    x, z = look.obj[:, 0], look.obj[:, 2] + 0.065
    aside = torch.hypot(hand[:, 0] - x, hand[:, 2] - z) > 0.02
    line_up = torch.stack([x, look.goal[:, 1] - 0.12, z], -1)
    push = torch.stack([x, look.goal[:, 1] - 0.022, z], -1)
    return act(hand, first_of((aside, line_up), otherwise=push), gain=10.0, effort=1.0)


TASK = Task(
    name="coffee-button",
    summary="Press the button of a coffee machine.",
    success_rule="button within 2 cm of its pressed position",
    start=Start((-0.1, 0.8, -0.001), (0.1, 0.9, 0.001), place, hand=HAND_BACK),
    shaped=Stages(bring("press the button", within=0.02, along="y"), Hold((0.0, -0.025, 0.068), side="the front")),
    scene="coffee",
    slots=slots,
    reward=reward,
    expert=expert,
)
