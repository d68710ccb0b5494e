"""The Franka Panda: Cartesian increments become joint targets by damped least squares, with the hand's orientation held."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.rewards import distance
from polytask.robots.ik import hinge_axes, joint_step, rotation_error
from polytask.robots.robot import Home, Robot, RobotState
from polytask.sim.base import Batch
from polytask.tasks.state import SceneView, constant

_STEP = 0.01  # metres that a full action moves the commanded hand in one control step
_LEAD = 0.08  # metres by which the command may lead the hand along each axis: it cannot wind up in contact
_OPEN = 0.098  # distance of the claws when fully open
_JOINTS = 7
_TURN = 1.5
_DOWN = (0.0, 0.0, 1.0, 0.0)  # orientation of the gripper: approach axis down, fingers closing along y
_POSTURE = (0.0, 0.1, 0.0, -2.2, 0.0, 2.3, -math.pi / 4)  # where the redundant elbow returns to
_POSTURE_RATE = 0.05  # part of the way back to the posture that each control step asks for
_HAND_LOW, _HAND_HIGH = (-0.525, 0.348, -0.0525), (0.525, 1.025, 0.7)  # the observed hand is clipped to this box
_IK_STEPS = 200
_SETTLE_STEPS = 250  # time steps in which the scene's objects come to rest


class _Pose(NamedTuple):
    """The part of a batch that inverse kinematics looks at."""

    qpos: Tensor
    xpos: Tensor
    xquat: Tensor
    site_xpos: Tensor


@dataclass(frozen=True)
class _Arm:
    """Where the arm is in a model."""

    joints: slice  # their positions in qpos
    fingers: slice
    links: slice  # bodies whose z axes are the joints' axes
    gripper: int
    hand: int
    mocap: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@cache
def _arm(model: mujoco.MjModel) -> _Arm:
    first, start = int(model.body("link1").id), int(model.joint("joint1").qposadr[0])
    ranges = model.jnt_range[[int(model.joint(f"joint{index + 1}").id) for index in range(_JOINTS)]]
    return _Arm(
        joints=slice(start, start + _JOINTS),
        fingers=slice(start + _JOINTS, start + _JOINTS + 2),
        links=slice(first, first + _JOINTS),
        gripper=int(model.body("gripper").id),
        hand=int(model.site("hand").id),
        mocap=int(model.body("mocap").mocapid[0]),
        low=tuple(ranges[:, 0].tolist()),
        high=tuple(ranges[:, 1].tolist()),
    )


def act(batch: Batch, action: Tensor, low: Tensor, high: Tensor) -> None:
    """Move the commanded hand by the first three entries, follow it with the joints and grip with the last."""
    arm = _arm(batch.model)
    hand, command = batch.site_xpos[:, arm.hand], batch.mocap_pos[:, arm.mocap]
    wanted = torch.clamp(command + _STEP * action[:, :3], hand - _LEAD, hand + _LEAD)
    command.copy_(torch.clamp(wanted, low, high))
    batch.ctrl[:, :_JOINTS] = _joint_targets(arm, batch, command)
    batch.ctrl[:, _JOINTS:] = action[:, 3:]


def _joint_targets(arm: _Arm, state: Batch | _Pose, command: Tensor) -> Tensor:
    """Return joint positions (N, 7) from which the hand is nearer to the command (N, 3)."""
    joints, hand = state.qpos[:, arm.joints], state.site_xpos[:, arm.hand]
    error = torch.cat([command - hand, _TURN * rotation_error(state.xquat[:, arm.gripper], _DOWN)], -1)
    drift = _POSTURE_RATE * (constant(_POSTURE, joints) - joints)
    step = joint_step(hinge_axes(state.xquat[:, arm.links]), hand[:, None] - state.xpos[:, arm.links], error, drift)
    return torch.clamp(joints + step, constant(arm.low, joints), constant(arm.high, joints))


def read(scene: SceneView, out: RobotState) -> None:
    """Read hand, fingers and tool centre."""
    hand = scene.site("hand")
    torch.clamp(hand, constant(_HAND_LOW, hand), constant(_HAND_HIGH, hand), out=out.hand)
    torch.div(distance(scene.body("rightfinger"), scene.body("leftfinger")), _OPEN, out=out.openness).clamp_(0.0, 1.0)
    torch.lerp(scene.site("rightEndEffector"), scene.site("leftEndEffector"), 0.5, out=out.tcp)
    out.left_pad.copy_(scene.site("leftpad"))
    out.right_pad.copy_(scene.site("rightpad"))


def settle(model: mujoco.MjModel, hand: tuple[float, float, float]) -> Home:
    """Put the hand where it starts, fingers open, and let the scene's objects come to rest under it."""
    data = mujoco.MjData(model)
    place_hand(model, data, hand)
    data.mocap_pos[_arm(model).mocap] = hand
    data.ctrl[:_JOINTS] = data.qpos[_arm(model).joints]
    data.ctrl[_JOINTS:] = -1.0
    mujoco.mj_step(model, data, nstep=_SETTLE_STEPS)
    tcp = (data.site("rightEndEffector").xpos + data.site("leftEndEffector").xpos) / 2
    return Home(qpos=data.qpos.copy(), qvel=data.qvel.copy(), mocap_pos=data.mocap_pos.copy(), tcp=tcp.copy())


def place_hand(model: mujoco.MjModel, data: mujoco.MjData, hand: tuple[float, float, float]) -> None:
    """Write joint positions that bring the hand to a position, or as near as the arm can, with open fingers."""
    arm = _arm(model)
    command = torch.tensor([hand])
    data.qpos[arm.joints] = _POSTURE
    data.qpos[arm.fingers] = model.joint("left_finger").range[1]
    for _ in range(_IK_STEPS):
        mujoco.mj_kinematics(model, data)
        fields = {name: torch.from_numpy(getattr(data, name))[None].float() for name in _Pose._fields}
        data.qpos[arm.joints] = _joint_targets(arm, _Pose(**fields), command)[0].numpy()
    mujoco.mj_kinematics(model, data)


ROBOT = Robot(
    name="panda",
    file="panda.xml",
    act=act,
    read=read,
    settle=settle,
)
