"""The Franka Panda: the action moves a commanded hand, and damped least squares makes the joints follow it.

The commanded hand is the position of the mocap body, as with the Sawyer, so that resets and checkpoints know of it; but
nothing is welded to it. The hand always points down with its fingers closing along y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import distance
from polytask.envs.manipulation.state import SceneView, constant
from polytask.robots.ik import hinge_axes, joint_step, rotation_error
from polytask.robots.robot import Home, Robot, RobotState
from polytask.scenes import compile_scene
from polytask.sim import SimConfig, make_batch
from polytask.sim.base import Batch

_STEP = 0.01  # metres that a full action moves the commanded hand in one control step
_LEAD = 0.08  # metres by which the command may lead the hand along an axis, so that it does not wind up in contact
_TURN = 1.5  # gain of orientation errors, above one because whatever the fingers push tilts the hand
_OPEN = 0.098  # distance of the finger bodies when fully open
_JOINTS = 7
_DOWN = (0.0, 0.0, 1.0, 0.0)  # orientation of the gripper's frame: z down, y along the world's y
_POSTURE = (0.0, 0.1, 0.0, -2.2, 0.0, 2.3, -math.pi / 4)  # what the redundant degree of freedom returns to
_RETURN = 0.05  # part of the way to that posture that a control step asks for
_HAND_LOW, _HAND_HIGH = (-0.525, 0.348, -0.0525), (0.525, 1.025, 0.7)  # the observed hand is clipped to this box
_REACH_STEPS = 200
_SETTLE_STEPS = 250  # time steps in which the scene's objects come to rest


@dataclass(frozen=True)
class _Arm:
    """Where the arm is in a model's arrays."""

    joints: slice  # of qpos; the fingers follow
    links: slice  # bodies whose origins and z axes are the joints'
    gripper: int  # body
    hand: int  # site
    mocap: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@cache
def _arm(model: mujoco.MjModel) -> _Arm:
    link, joint = int(model.body("link1").id), model.joint("joint1")
    ranges = model.jnt_range[int(joint.id) : int(joint.id) + _JOINTS]
    start = int(joint.qposadr[0])
    return _Arm(
        joints=slice(start, start + _JOINTS),
        links=slice(link, link + _JOINTS),
        gripper=int(model.body("gripper").id),
        hand=int(model.site("hand").id),
        mocap=int(model.body("mocap").mocapid[0]),
        low=tuple(ranges[:, 0].tolist()),
        high=tuple(ranges[:, 1].tolist()),
    )


def act(batch: Batch, action: Tensor, low: Tensor, high: Tensor) -> None:
    """Move the commanded hand by the first three entries, send the joints after it and grip with the last."""
    arm = _arm(batch.model)
    hand, command = batch.site_xpos[:, arm.hand], batch.mocap_pos[:, arm.mocap]
    wanted = torch.clamp(command + _STEP * action[:, :3], hand - _LEAD, hand + _LEAD)
    command.copy_(torch.clamp(wanted, low, high))
    batch.ctrl[:, :_JOINTS] = joint_targets(batch, command)
    batch.ctrl[:, _JOINTS:] = action[:, 3:]


def joint_targets(batch: Batch, command: Tensor) -> Tensor:
    """Return joint positions (N, 7) within their ranges from which the hand is nearer to the command (N, 3)."""
    arm = _arm(batch.model)
    joints, hand = batch.qpos[:, arm.joints], batch.site_xpos[:, arm.hand]
    error = torch.cat([command - hand, _TURN * rotation_error(batch.xquat[:, arm.gripper], _DOWN)], -1)
    drift = _RETURN * (constant(_POSTURE, joints) - joints)
    step = joint_step(hinge_axes(batch.xquat[:, arm.links]), hand[:, None] - batch.xpos[:, arm.links], error, drift)
    return torch.clamp(joints + step, constant(arm.low, joints), constant(arm.high, joints))


def reach(batch: Batch, position: Tensor) -> None:
    """Pose the arms, without physics, so that the hands are at a position (N, 3), or as near as they can be."""
    arm = _arm(batch.model)
    everyone = torch.ones(batch.num_worlds, dtype=torch.bool, device=batch.device)
    qpos, rest = batch.qpos.clone(), torch.zeros_like(batch.qvel)
    qpos[:, arm.joints] = constant(_POSTURE, qpos)
    for _ in range(_REACH_STEPS):
        batch.reset(everyone, qpos, rest)
        batch.forward()
        qpos[:, arm.joints] = joint_targets(batch, position)


@cache
def _start(hand: tuple[float, float, float]) -> np.ndarray:
    """Return the joint positions (7,) that bring the hand to its start; the arm is the same in any scene."""
    batch = make_batch("cpu", compile_scene("puck", ROBOT.file), 1, torch.device("cpu"), SimConfig())
    reach(batch, torch.tensor([hand]))
    return batch.qpos[0, _arm(batch.model).joints].numpy()


def read(scene: SceneView, out: RobotState) -> None:
    """Read hand, fingers and tool centre."""
    hand = scene.site("hand")
    torch.clamp(hand, constant(_HAND_LOW, hand), constant(_HAND_HIGH, hand), out=out.hand)
    torch.div(distance(scene.body("rightfinger"), scene.body("leftfinger")), _OPEN, out=out.openness).clamp_(0.0, 1.0)
    torch.lerp(scene.site("rightEndEffector"), scene.site("leftEndEffector"), 0.5, out=out.tcp)
    out.left_pad.copy_(scene.site("leftpad"))
    out.right_pad.copy_(scene.site("rightpad"))


def settle(model: mujoco.MjModel, hand: tuple[float, float, float]) -> Home:
    """Pose the arm with the hand at its start and open fingers, and let the scene's objects come to rest under it."""
    arm, data = _arm(model), mujoco.MjData(model)
    robot = slice(arm.joints.start, arm.joints.stop + 2)
    start = np.append(_start(hand), [model.joint("left_finger").range[1]] * 2)
    data.qpos[robot] = start
    data.ctrl[:] = np.append(start[:_JOINTS], [-1.0, -1.0])
    data.mocap_pos[arm.mocap] = hand
    mujoco.mj_step(model, data, nstep=_SETTLE_STEPS)
    # Fixtures stood where the file has them, and one may have pushed the arm aside: put it back.
    data.qpos[robot] = start
    velocities = int(model.joint("joint1").dofadr[0])
    data.qvel[velocities : velocities + len(start)] = 0.0
    mujoco.mj_forward(model, data)
    tcp = (data.site("rightEndEffector").xpos + data.site("leftEndEffector").xpos) / 2
    return Home(qpos=data.qpos.copy(), qvel=data.qvel.copy(), mocap_pos=data.mocap_pos.copy(), tcp=tcp.copy())


ROBOT = Robot(
    name="panda",
    file="panda.xml",
    act=act,
    read=read,
    settle=settle,
)
