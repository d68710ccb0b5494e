"""The Unitree Go1: where its motors, joints and sensors are in the scene, and how its state is read.

Joints, motors and feet are in the order front left, front right, rear left, rear right; each leg has hip, thigh, calf.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.robots.robot import LeggedRobot
from polytask.sim.base import Batch
from polytask.sim.geometry import euler, rotate_back, rotation_matrix
from polytask.sim.view import constant

ROBOT = LeggedRobot(name="go1", about="Unitree Go1: twelve motors, for parkour.", file="go1.xml")
LEGS, JOINTS = 4, 12
STIFFNESS, DAMPING = 50.0, 3.0  # of the position servos, N m / rad and N m s / rad
DEFAULT = (0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5)  # joint angles of the standing pose
LOW = (-0.802851455917, -1.0471975512, -2.69653369433) * LEGS  # joint limits
HIGH = (0.802851455917, 4.18879020479, -0.916297857297) * LEGS

# Geometry of the legs, in metres: hips in the trunk's frame, from a hip to its thigh, length of a thigh and of a calf.
_HIPS = (0.1881, 0.04675, 0.0, 0.1881, -0.04675, 0.0, -0.1881, 0.04675, 0.0, -0.1881, -0.04675, 0.0)
_OFFSET, _LENGTH = 0.08, 0.213

# Sensor readings: contact forces on the parts of each leg, in contact frames, then the motor torques.
_FEET, _THIGHS, _CALVES, _TORQUES = slice(0, 12), slice(12, 24), slice(24, 36), slice(36, 48)


@dataclass(frozen=True)
class Motion:
    """State of N robots at one time."""

    position: Tensor  # (N, 3) of the trunk
    roll: Tensor  # (N,)
    pitch: Tensor  # (N,)
    yaw: Tensor  # (N,)
    velocity: Tensor  # (N, 3) of the trunk, in the world frame
    velocity_body: Tensor  # (N, 3) the same, in the trunk's frame
    spin_body: Tensor  # (N, 3) angular velocity of the trunk, in its frame
    joints: Tensor  # (N, 12)
    speeds: Tensor  # (N, 12)


def read_motion(batch: Batch) -> Motion:
    """Read positions, orientations and velocities of the robots."""
    qpos, qvel = batch.qpos, batch.qvel
    quat = qpos[:, 3:7]
    roll, pitch, yaw = euler(quat)
    return Motion(
        position=qpos[:, 0:3],
        roll=roll,
        pitch=pitch,
        yaw=yaw,
        velocity=qvel[:, 0:3],
        velocity_body=rotate_back(quat, qvel[:, 0:3]),
        spin_body=qvel[:, 3:6],
        joints=qpos[:, 7:],
        speeds=qvel[:, 6:],
    )


@dataclass(frozen=True)
class Touch:
    """Contact forces and torques of N robots in the last time step."""

    feet: Tensor  # (N, 4) contact force in newtons
    legs: Tensor  # (N, 8) the same for thighs and calves
    torques: Tensor  # (N, 12)


def read_touch(batch: Batch) -> Touch:
    """Read contact forces and torques."""
    sensors = batch.sensordata

    def force(part: slice) -> Tensor:
        return torch.linalg.vector_norm(sensors[:, part].unflatten(1, (LEGS, 3)), dim=-1)

    return Touch(force(_FEET), torch.cat([force(_THIGHS), force(_CALVES)], -1), sensors[:, _TORQUES])


def read_feet(batch: Batch) -> Tensor:
    """Compute the positions of the feet (N, 4, 3) from the joints; `step(refresh=False)` does not update poses."""
    qpos = batch.qpos
    hip, thigh, calf = qpos[:, 7:].unflatten(1, (LEGS, 3)).unbind(-1)  # (N, 4) each
    hips = constant(_HIPS, qpos).view(LEGS, 3)
    forward = -_LENGTH * (torch.sin(thigh) + torch.sin(thigh + calf))
    down = -_LENGTH * (torch.cos(thigh) + torch.cos(thigh + calf))
    side = _OFFSET * torch.sign(hips[:, 1])
    cosine, sine = torch.cos(hip), torch.sin(hip)
    leg = torch.stack([forward, side * cosine - down * sine, side * sine + down * cosine], -1)
    rotation = rotation_matrix(qpos[:, 3:7])
    return qpos[:, None, :3] + torch.einsum("nij,nlj->nli", rotation, hips + leg)
