"""The Sawyer with Meta-World's control: the hand is welded to a mocap body that the action moves."""

from __future__ import annotations

from functools import cache

import mujoco
import torch
from torch import Tensor

from polytask.robots.robot import Home, Robot, RobotState
from polytask.sim.base import Batch
from polytask.sim.view import SceneView, constant

_STEP = 0.01  # metres that a full action moves the mocap body in one control step
_OPEN = 0.1  # distance of the claws that counts as fully open
_SETTLE_STEPS = 250  # time steps in which the arm is dragged from zero joint angles to the hand's start


@cache
def _hand_mocap(model: mujoco.MjModel) -> int:
    return int(model.body("mocap").mocapid[0])


def act(batch: Batch, action: Tensor, low: Tensor, high: Tensor) -> None:
    """Move the mocap body by the first three entries and command the finger servos with the last."""
    hand = batch.mocap_pos[:, _hand_mocap(batch.model)]
    hand.copy_(torch.clamp(hand + _STEP * action[:, :3], low, high))
    torch.mul(action[:, 3:], constant((1.0, -1.0), action), out=batch.ctrl)


def read(scene: SceneView, out: RobotState) -> None:
    """Read hand, fingers and tool centre into `out`."""
    out.fill(scene.body("hand"), (scene.body("rightclaw"), scene.body("leftclaw")), _OPEN, scene)
    out.left_pad.copy_(scene.body("leftpad"))
    out.right_pad.copy_(scene.body("rightpad"))


def settle(model: mujoco.MjModel, hand: tuple[float, float, float]) -> Home:
    """Drag the arm to the hand's start with open fingers, for exactly as many steps as Meta-World's reset.

    After that, the arm still drifts a little in its redundant degree of freedom; the start state keeps this drift.
    """
    data = mujoco.MjData(model)
    data.mocap_pos[_hand_mocap(model)] = hand
    data.ctrl[:] = (-1.0, 1.0)
    mujoco.mj_step(model, data, nstep=_SETTLE_STEPS)
    return Home.of(data)


ROBOT = Robot(
    name="sawyer",
    about="Rethink Sawyer, controlled as in Meta-World: the action moves the hand itself.",
    file="sawyer.xml",
    act=act,
    read=read,
    settle=settle,
)
