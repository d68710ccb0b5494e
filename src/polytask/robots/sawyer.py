"""The Sawyer under Meta-World's control: the hand is welded to a mocap body that the action moves."""

from __future__ import annotations

import mujoco
import torch
from torch import Tensor

from polytask.rewards import distance
from polytask.robots.robot import Home, Robot, RobotState
from polytask.sim.base import Batch
from polytask.tasks.state import SceneView

_STEP = 0.01  # metres that a full action moves the mocap body in one control step
_OPEN = 0.1  # distance of the claws that counts as fully open
_SETTLE_STEPS = 250  # time steps in which the arm is dragged from zero joint angles to the hand's start


def _hand_mocap(model: mujoco.MjModel) -> int:
    return int(model.body_mocapid[mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "mocap")])


def act(batch: Batch, action: Tensor, low: Tensor, high: Tensor) -> None:
    """Move the mocap body by the first three entries and command the finger servos with the last."""
    hand = batch.mocap_pos[:, _hand_mocap(batch.model)]
    hand.copy_(torch.clamp(hand + _STEP * action[:, :3], low, high))
    batch.ctrl[:, 0] = action[:, 3]
    batch.ctrl[:, 1] = -action[:, 3]


def read(scene: SceneView) -> RobotState:
    """Read hand, fingers and tool centre."""
    claws = distance(scene.body("rightclaw"), scene.body("leftclaw"))
    return RobotState(
        hand=scene.body("hand"),
        openness=(claws / _OPEN).clamp(0.0, 1.0),
        tcp=(scene.site("rightEndEffector") + scene.site("leftEndEffector")) / 2,
        left_pad=scene.body("leftpad"),
        right_pad=scene.body("rightpad"),
    )


def settle(model: mujoco.MjModel, hand: tuple[float, float, float]) -> Home:
    """Drag the arm to the hand's start with open fingers, exactly as long as Meta-World's reset does.

    The arm still drifts a little in its redundant degree of freedom then; the start state keeps that.
    """
    data = mujoco.MjData(model)
    data.mocap_pos[_hand_mocap(model)] = hand
    data.ctrl[:] = (-1.0, 1.0)
    mujoco.mj_step(model, data, nstep=_SETTLE_STEPS)
    tcp = (data.site("rightEndEffector").xpos + data.site("leftEndEffector").xpos) / 2
    return Home(qpos=data.qpos.copy(), qvel=data.qvel.copy(), mocap_pos=data.mocap_pos.copy(), tcp=tcp.copy())


ROBOT = Robot(
    name="sawyer",
    file="sawyer.xml",
    act=act,
    read=read,
    settle=settle,
    hand_low=(-0.525, 0.348, -0.0525),
    hand_high=(0.525, 1.025, 0.7),
)
