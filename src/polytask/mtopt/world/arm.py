"""The Panda over the bins: joint targets that move the fingertips to a commanded place and yaw."""

from __future__ import annotations

from functools import cache

import mujoco
import torch
from torch import Tensor

from polytask.robots.panda_arm import find_arm, joint_targets, pose_arm
from polytask.scenes.mtopt import compile_mtopt
from polytask.sim import make_batch
from polytask.sim.base import Batch
from polytask.sim.geometry import rotation_error

FINGER_OPEN = 0.04  # joint position
_REACH_STEPS = 60


@cache
def _tips(model: mujoco.MjModel) -> tuple[int, int]:
    """Return the sites of the two fingertips."""
    return int(model.site("leftEndEffector").id), int(model.site("rightEndEffector").id)


def fingertips(batch: Batch) -> Tensor:
    """Return the point between the fingertips. (N, 3)"""
    left, right = _tips(batch.model)
    return 0.5 * (batch.site_xpos[:, left] + batch.site_xpos[:, right])


def turn_error(quat: Tensor, yaw: Tensor) -> Tensor:
    """Return the rotation (N, 3) that points grippers (N, 4) down with their fingers at `yaw` (N,) from the y axis.

    See `rotation_error` for its form.
    """
    # Pointing down is (0, 0, 1, 0); with a turn about the vertical before it: (0, -sin, cos, 0) of half the angle.
    return rotation_error(quat, (0.0, -torch.sin(0.5 * yaw), torch.cos(0.5 * yaw), 0.0))


def follow(batch: Batch, place: Tensor, yaw: Tensor) -> Tensor:
    """Return joint targets (N, 7) that move the fingertips towards a place (N, 3) and a yaw (N,)."""
    arm, tips = find_arm(batch.model), fingertips(batch)
    error = torch.cat([place - tips, turn_error(batch.xquat[:, arm.gripper], yaw)], -1)
    return joint_targets(batch, arm, tips, error)


@cache
def pose_at(place: tuple[float, float, float]) -> tuple[float, ...]:
    """Return the joint positions that bring the fingertips to a place, with a yaw of zero."""
    batch = make_batch("cpu", compile_mtopt(False), 1, torch.device("cpu"))
    arm, goal = find_arm(batch.model), torch.tensor([place])
    qpos = pose_arm(batch, arm, lambda: follow(batch, goal, torch.zeros(1)), _REACH_STEPS)
    return tuple(qpos[0, arm.joints].tolist())
