"""The Franka Panda: the action moves a commanded hand position, and the joints follow it by damped least squares.

The command is the position of the mocap body, as for the Sawyer, so that resets and checkpoints include it. But nothing
is welded to this body. The hand always points down, and its fingers close along y.
"""

from __future__ import annotations

from functools import cache

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.robots.panda_arm import JOINTS, PandaArm, find_arm, joint_targets, pose_arm
from polytask.robots.robot import Home, Robot, RobotState
from polytask.scenes import compile_scene
from polytask.sim import make_batch
from polytask.sim.base import Batch
from polytask.sim.geometry import rotation_error
from polytask.sim.view import SceneView

_STEP = 0.01  # metres that a full action moves the commanded hand in one control step
_LEAD = 0.08  # metres by which the command may lead the hand along an axis, against wind-up in contact
_TURN = 1.5  # gain of orientation errors, above one because forces on the fingers tilt the hand
_OPEN = 0.098  # distance of the finger bodies when fully open
_DOWN = (0.0, 0.0, 1.0, 0.0)  # orientation of the gripper's frame: z down, y along the world's y
_REACH_STEPS = 200
_SETTLE_STEPS = 250  # time steps in which the scene's objects come to rest


@cache
def _hand(model: mujoco.MjModel) -> tuple[int, int]:
    """Return the site of the hand and the index of the mocap body that is its command."""
    return int(model.site("hand").id), int(model.body("mocap").mocapid[0])


def act(batch: Batch, action: Tensor, low: Tensor, high: Tensor) -> None:
    """Move the commanded hand by the first three entries, set the joint targets and grip with the last entry."""
    site, mocap = _hand(batch.model)
    hand, command = batch.site_xpos[:, site], batch.mocap_pos[:, mocap]
    wanted = torch.clamp(command + _STEP * action[:, :3], hand - _LEAD, hand + _LEAD)
    command.copy_(torch.clamp(wanted, low, high))
    batch.ctrl[:, :JOINTS] = follow(batch, command)
    batch.ctrl[:, JOINTS:] = action[:, 3:]


def follow(batch: Batch, command: Tensor) -> Tensor:
    """Return joint targets (N, 7), within the joint limits, that move the hand towards the command (N, 3)."""
    arm: PandaArm = find_arm(batch.model)
    hand = batch.site_xpos[:, _hand(batch.model)[0]]
    error = torch.cat([command - hand, _TURN * rotation_error(batch.xquat[:, arm.gripper], _DOWN)], -1)
    return joint_targets(batch, arm, hand, error)


def reach(batch: Batch, position: Tensor) -> None:
    """Pose the arms, without physics, so that the hands are as near to a position (N, 3) as possible."""
    pose_arm(batch, find_arm(batch.model), lambda: follow(batch, position), _REACH_STEPS)


@cache
def _start(hand: tuple[float, float, float]) -> np.ndarray:
    """Return the joint positions (7,) with the hand at its start; they are the same in every scene."""
    batch = make_batch("cpu", compile_scene("puck", ROBOT.file), 1, torch.device("cpu"))
    reach(batch, torch.tensor([hand]))
    return batch.qpos[0, find_arm(batch.model).joints].numpy()


def read(scene: SceneView, out: RobotState) -> None:
    """Read hand, fingers and tool centre into `out`."""
    out.fill(scene.site("hand"), (scene.body("rightfinger"), scene.body("leftfinger")), _OPEN, scene)
    out.left_pad.copy_(scene.site("leftpad"))
    out.right_pad.copy_(scene.site("rightpad"))


def settle(model: mujoco.MjModel, hand: tuple[float, float, float]) -> Home:
    """Pose the arm with the hand at its start and open fingers, and simulate until the objects are at rest."""
    arm, data = find_arm(model), mujoco.MjData(model)
    robot = slice(arm.joints.start, arm.joints.stop + 2)
    start = np.append(_start(hand), [model.joint("left_finger").range[1]] * 2)
    data.qpos[robot] = start
    data.ctrl[:] = np.append(start[:JOINTS], [-1.0, -1.0])
    data.mocap_pos[_hand(model)[1]] = hand
    mujoco.mj_step(model, data, nstep=_SETTLE_STEPS)
    # Fixtures were at their positions in the file and may have pushed the arm aside: put it back.
    data.qpos[robot] = start
    velocities = int(model.joint("joint1").dofadr[0])
    data.qvel[velocities : velocities + len(start)] = 0.0
    mujoco.mj_forward(model, data)
    return Home.of(data)


ROBOT = Robot(
    name="panda",
    about="Franka Panda: seven joints follow a commanded hand by inverse kinematics.",
    file="panda.xml",
    act=act,
    read=read,
    settle=settle,
)
