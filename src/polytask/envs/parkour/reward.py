"""The parkour reward: a weighted sum of four terms, never below zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.robots.go1 import Motion, Touch

STEP = 0.02  # seconds of a control step; weights are per second
VELOCITY, YAW, ENERGY, COLLISION = 4.0, 1.0, -0.0005, -10.0
TOUCHING = 0.1  # newtons above which a thigh or calf counts as colliding


def goal_velocity(motion: Motion, to_goal: Tensor, command: Tensor) -> Tensor:
    """Return the speed towards the waypoint as a share of the commanded speed, at most 1. (N,)"""
    distance = torch.linalg.vector_norm(to_goal, dim=-1)
    speed = (motion.velocity[:, :2] * to_goal).sum(-1) / (distance + 1e-5)
    return torch.minimum(speed, command) / command


def heading(error: Tensor) -> Tensor:
    """Return 1 for a robot that faces the waypoint, and less the larger its heading error (N,) is."""
    return torch.exp(-error.abs())


def energy(motion: Motion, touch: Touch) -> Tensor:
    """Return the positive power of the motors in watts. (N,)"""
    return (touch.torques * motion.speeds).clamp_min(0.0).sum(-1)


def collisions(touch: Touch) -> Tensor:
    """Count the thighs and calves that touch something. (N,)"""
    return (touch.legs > TOUCHING).float().sum(-1)


@dataclass(frozen=True)
class Change:
    """What a run changes of the benchmark's reward."""

    pays_standing: bool = True  # pay for the heading also without moving
    penalty: Tensor | None = None  # (N,) per second, subtracted


BENCHMARK = Change()


def reward(
    motion: Motion, touch: Touch, to_goal: Tensor, error: Tensor, command: Tensor, change: Change = BENCHMARK
) -> Tensor:
    """Return the reward of a step. (N,)

    Args:
        motion: State of the robots after the step.
        touch: Their contact forces and torques.
        to_goal: Vector from the robot to its waypoint. (N, 2)
        error: Angle from the robot's heading to that direction. (N,)
        command: Commanded speed. (N,)
        change: Changes of the reward.
    """
    speed, facing = goal_velocity(motion, to_goal, command), heading(error)
    if not change.pays_standing:
        facing = facing * speed.clamp_min(0.0)
    total = VELOCITY * speed + YAW * facing
    if change.penalty is not None:
        total = total - change.penalty
    total = total + ENERGY * energy(motion, touch) + COLLISION * collisions(touch)
    return (STEP * total).clamp_min(0.0)
