"""The Panda over the bins: joint targets that bring the fingertips to a commanded place and turn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from polytask.envs.manipulation.state import constant
from polytask.robots.ik import hinge_axes, joint_step
from polytask.scenes.bins import compile_mtopt
from polytask.sim import SimConfig, make_batch
from polytask.sim.base import Batch

JOINTS = 7
FINGER_OPEN = 0.04  # joint position
_POSTURE = (0.0, 0.1, 0.0, -2.2, 0.0, 2.3, -math.pi / 4)  # what the redundant degree of freedom returns to
_RETURN = 0.05  # part of the way to that posture that a step asks for
_REACH_STEPS = 60


@dataclass(frozen=True)
class Arm:
    """Where the arm is in the model's arrays."""

    joints: slice  # of qpos
    fingers: slice  # of qpos
    links: slice  # bodies whose origins and z axes are the joints'
    gripper: int  # body
    tips: tuple[int, int]  # sites
    low: tuple[float, ...]
    high: tuple[float, ...]


def find_arm(model: Any) -> Arm:
    """Look up the arm in a compiled scene."""
    link, joint = int(model.body("link1").id), int(model.joint("joint1").id)
    start, finger = int(model.joint("joint1").qposadr[0]), int(model.joint("left_finger").qposadr[0])
    ranges = model.jnt_range[joint : joint + JOINTS]
    return Arm(
        joints=slice(start, start + JOINTS),
        fingers=slice(finger, finger + 2),
        links=slice(link, link + JOINTS),
        gripper=int(model.body("gripper").id),
        tips=(int(model.site("leftEndEffector").id), int(model.site("rightEndEffector").id)),
        low=tuple(ranges[:, 0].tolist()),
        high=tuple(ranges[:, 1].tolist()),
    )


def fingertips(batch: Batch, arm: Arm) -> Tensor:
    """Return the point between the fingertips. (N, 3)"""
    return 0.5 * (batch.site_xpos[:, arm.tips[0]] + batch.site_xpos[:, arm.tips[1]])


def turn_error(quat: Tensor, yaw: Tensor) -> Tensor:
    """Return the turn that points grippers (N, 4) down with their fingers closing at `yaw` (N,) from the y axis.

    As its axis times twice the sine of half its angle; for small errors the rotation vector in the world's frame.
    """
    # Pointing down is (0, 0, 1, 0); a turn about the vertical before it gives (0, -sin, cos, 0) of half the angle.
    gx, gy = -torch.sin(0.5 * yaw), torch.cos(0.5 * yaw)
    w, x, y, z = quat.unbind(-1)
    cosine = gx * x + gy * y
    sine = torch.stack([gx * w - gy * z, gy * w + gx * z, gy * x - gx * y], -1)
    return 2 * torch.copysign(torch.ones_like(cosine), cosine)[:, None] * sine


def joint_targets(batch: Batch, arm: Arm, place: Tensor, yaw: Tensor) -> Tensor:
    """Return joint positions (N, 7) from which the fingertips are nearer to a place (N, 3) and a yaw (N,)."""
    joints, tips = batch.qpos[:, arm.joints], fingertips(batch, arm)
    error = torch.cat([place - tips, turn_error(batch.xquat[:, arm.gripper], yaw)], -1)
    drift = _RETURN * (constant(_POSTURE, joints) - joints)
    step = joint_step(hinge_axes(batch.xquat[:, arm.links]), tips[:, None] - batch.xpos[:, arm.links], error, drift)
    return torch.clamp(joints + step, constant(arm.low, joints), constant(arm.high, joints))


@cache
def pose_at(place: tuple[float, float, float]) -> tuple[float, ...]:
    """Return the joint positions that bring the fingertips to a place, without a turn."""
    batch = make_batch("cpu", compile_mtopt(False), 1, torch.device("cpu"), SimConfig())
    arm = find_arm(batch.model)
    qpos, rest = batch.qpos.clone(), torch.zeros_like(batch.qvel)
    qpos[:, arm.joints] = constant(_POSTURE, qpos)
    goal, everyone = torch.tensor([place]), torch.ones(1, dtype=torch.bool)
    for _ in range(_REACH_STEPS):
        batch.reset(everyone, qpos, rest)
        batch.forward()
        qpos[:, arm.joints] = joint_targets(batch, arm, goal, torch.zeros(1))
    return tuple(qpos[0, arm.joints].tolist())
