"""The Franka Panda's arm in any scene: where it is in the model's arrays, and joint targets that move its hand.

The manipulation tasks (`robots.panda`) and the bins of MT-Opt (`mtopt.world.arm`) control different points of the hand
with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mujoco
import torch
from torch import Tensor

from polytask.robots.ik import hinge_axes, joint_step
from polytask.sim.base import Batch
from polytask.sim.view import constant

JOINTS = 7
POSTURE = (0.0, 0.1, 0.0, -2.2, 0.0, 2.3, -math.pi / 4)  # what the redundant degree of freedom returns to
_RETURN = 0.05  # part of the way to that posture that a control step asks for


@dataclass(frozen=True)
class PandaArm:
    """Where the arm is in a model's arrays."""

    joints: slice  # of qpos
    fingers: slice  # of qpos
    links: slice  # bodies whose origins and z axes are the joints'
    gripper: int  # body
    low: tuple[float, ...]  # limits of the joints
    high: tuple[float, ...]


@cache
def find_arm(model: mujoco.MjModel) -> PandaArm:
    """Look up the arm in a compiled scene."""
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
        arm: Where the arm is.
        point: The controlled point. (N, 3)
        error: Its position error and rotation vector. (N, 6)
    """
    joints = batch.qpos[:, arm.joints]
    drift = _RETURN * (constant(POSTURE, joints) - joints)
    step = joint_step(hinge_axes(batch.xquat[:, arm.links]), point[:, None] - batch.xpos[:, arm.links], error, drift)
    return torch.clamp(joints + step, constant(arm.low, joints), constant(arm.high, joints))


def pose_arm(batch: Batch, arm: PandaArm, targets: Callable[[], Tensor], steps: int) -> Tensor:
    """Pose the arm without physics: start from its posture and follow the targets for some steps.

    Returns:
        The positions (N, nq) that the last targets lead to; the batch is left one step before them.
    """
    everyone = torch.ones(batch.num_worlds, dtype=torch.bool, device=batch.device)
    qpos, rest = batch.qpos.clone(), torch.zeros_like(batch.qvel)
    qpos[:, arm.joints] = constant(POSTURE, qpos)
    for _ in range(steps):
        batch.reset(everyone, qpos, rest)
        batch.forward()
        qpos[:, arm.joints] = targets()
    return qpos
