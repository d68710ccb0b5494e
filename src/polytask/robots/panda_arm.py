"""The arm of the Franka Panda in any scene: its indices in the model's arrays, and joint targets that move its hand.

The manipulation tasks (`robots.panda`) and MT-Opt (`mtopt.world.arm`) use it to control different points of the hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mujoco
import torch
from torch import Tensor

from polytask.robots.ik import joint_step
from polytask.sim.base import Batch
from polytask.sim.geometry import z_axis
from polytask.sim.view import constant

JOINTS = 7
POSTURE = (0.0, 0.1, 0.0, -2.2, 0.0, 2.3, -math.pi / 4)  # the redundant degree of freedom returns to this posture
_RETURN = 0.05  # fraction of the way to that posture per control step


@dataclass(frozen=True)
class PandaArm:
    """Indices of the arm in a model's arrays."""

    joints: slice  # of qpos
    fingers: slice  # of qpos
    links: slice  # bodies whose origins and z axes are those of the joints
    gripper: int  # body
    low: tuple[float, ...]  # joint limits
    high: tuple[float, ...]


@cache
def find_arm(model: mujoco.MjModel) -> PandaArm:
    """Return the indices of the arm in a compiled scene."""
    link, joint = int(model.body("link1").id), int(model.joint("joint1").id)
    start, finger = int(model.joint("joint1").qposadr[0]), int(model.joint("left_finger").qposadr[0])
    ranges = model.jnt_range[joint : joint + JOINTS]
    return PandaArm(
        joints=slice(start, start + JOINTS),
        fingers=slice(finger, finger + 2),
        links=slice(link, link + JOINTS),
        gripper=int(model.body("gripper").id),
        low=tuple(ranges[:, 0].tolist()),
        high=tuple(ranges[:, 1].tolist()),
    )


def joint_targets(batch: Batch, arm: PandaArm, point: Tensor, error: Tensor) -> Tensor:
    """Return joint positions (N, 7), within their limits, that reduce the pose error of a point of the hand.

    Args:
        batch: The worlds.
        arm: Indices of the arm.
        point: The controlled point. (N, 3)
        error: Its position error and rotation vector. (N, 6)
    """
    joints = batch.qpos[:, arm.joints]
    drift = _RETURN * (constant(POSTURE, joints) - joints)
    step = joint_step(z_axis(batch.xquat[:, arm.links]), point[:, None] - batch.xpos[:, arm.links], error, drift)
    return torch.clamp(joints + step, constant(arm.low, joints), constant(arm.high, joints))


def pose_arm(batch: Batch, arm: PandaArm, targets: Callable[[], Tensor], steps: int) -> Tensor:
    """Pose the arm without physics: start from its posture and follow the targets for some steps.

    Returns:
        The positions (N, nq) after the last step; the batch itself is one step behind.
    """
    everyone = torch.ones(batch.num_worlds, dtype=torch.bool, device=batch.device)
    qpos, rest = batch.qpos.clone(), torch.zeros_like(batch.qvel)
    qpos[:, arm.joints] = constant(POSTURE, qpos)
    for _ in range(steps):
        batch.reset(everyone, qpos, rest)
        batch.forward()
        qpos[:, arm.joints] = targets()
    return qpos
