"""The Robot record: everything that differs between robots, so that a task works with every robot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.sim.base import Batch
from polytask.sim.geometry import distance
from polytask.sim.view import SceneView, constant

HAND_LOW, HAND_HIGH = (-0.525, 0.348, -0.0525), (0.525, 1.025, 0.7)  # the observed hand is clipped to this box


@dataclass(frozen=True)
class RobotState:
    """The robot part of a state, in buffers that `Robot.read` fills; see `envs.manipulation.state.State`."""

    hand: Tensor  # (N, 3)
    openness: Tensor  # (N,)
    tcp: Tensor  # (N, 3)
    left_pad: Tensor  # (N, 3)
    right_pad: Tensor  # (N, 3)

    @classmethod
    def empty(cls, num_worlds: int, device: torch.device) -> RobotState:
        """Allocate buffers."""
        points = [torch.zeros(num_worlds, 3, device=device) for _ in range(4)]
        return cls(points[0], torch.zeros(num_worlds, device=device), points[1], points[2], points[3])

    def fill(self, hand: Tensor, fingers: tuple[Tensor, Tensor], open_distance: float, scene: SceneView) -> None:
        """Write the state of a robot with two fingers.

        Args:
            hand: Position of the hand, which is clipped as in the observation. (N, 3)
            fingers: Positions of both fingers, which give the openness. (N, 3) each
            open_distance: Distance of the fingers that counts as fully open.
            scene: The scene, whose sites name the fingertips.
        """
        torch.clamp(hand, constant(HAND_LOW, hand), constant(HAND_HIGH, hand), out=self.hand)
        torch.div(distance(*fingers), open_distance, out=self.openness).clamp_(0.0, 1.0)
        torch.lerp(scene.site("rightEndEffector"), scene.site("leftEndEffector"), 0.5, out=self.tcp)

    def rows(self, worlds: slice) -> RobotState:
        """Return views of the rows of some worlds."""
        return RobotState(**{name: tensor[worlds] for name, tensor in vars(self).items()})


@dataclass(frozen=True)
class Home:
    """State of a settled scene, from which episodes start."""

    qpos: np.ndarray  # (nq,)
    qvel: np.ndarray  # (nv,)
    mocap_pos: np.ndarray  # (nmocap, 3)
    tcp: np.ndarray  # (3,)

    @classmethod
    def of(cls, data: mujoco.MjData) -> Home:
        """Copy the state of a simulation."""
        tcp = (data.site("rightEndEffector").xpos + data.site("leftEndEffector").xpos) / 2
        return cls(qpos=data.qpos.copy(), qvel=data.qvel.copy(), mocap_pos=data.mocap_pos.copy(), tcp=tcp.copy())


@dataclass(frozen=True)
class Robot:
    """A robot arm.

    Attributes:
        name: Name on the command line.
        about: One line for `polytask list robots`.
        file: MJCF file in `scenes/mjcf`.
        act: Turn actions (N, 4) into commands, keeping the commanded hand within [low, high] (N, 3).
        read: Read the robot part of the state into buffers; the hand is clipped as in the observation.
        settle: Simulate the scene on the CPU until the hand is at its start, and return that state.
    """

    name: str
    about: str
    file: str
    act: Callable[[Batch, Tensor, Tensor, Tensor], None]
    read: Callable[[SceneView, RobotState], None]
    settle: Callable[[mujoco.MjModel, tuple[float, float, float]], Home]


@dataclass(frozen=True)
class MotorLimits:
    """What the motors of a leg can do; hip, thigh, calf."""

    torque: tuple[float, float, float]  # N m at rest
    speed: tuple[float, float, float]  # rad/s at which no torque is left


@dataclass(frozen=True)
class LeggedRobot:
    """A legged robot.

    Parkour reads the Go1's joints and sensors, so another legged robot needs changes there.

    Attributes:
        name: Name on the command line.
        about: One line for `polytask list robots`.
        file: MJCF file in `scenes/mjcf`.
        motors: Limits of the motors. A robot that has them is also late, measures with errors and is another one in
            every episode, as the options `reality.*` say. One without is the benchmark's.
    """

    name: str
    about: str
    file: str
    motors: MotorLimits | None = None
