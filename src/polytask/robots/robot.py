"""The Robot record: what differs between robots, so that a task never has to ask which one it drives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
from torch import Tensor

from polytask.sim.base import Batch
from polytask.tasks.state import SceneView


@dataclass(frozen=True)
class RobotState:
    """The robot part of a state; see `tasks.state.State` for the meaning of the fields."""

    hand: Tensor
    openness: Tensor
    tcp: Tensor
    left_pad: Tensor
    right_pad: Tensor


@dataclass(frozen=True)
class Home:
    """A settled scene to start episodes from."""

    qpos: np.ndarray  # (nq,)
    qvel: np.ndarray  # (nv,)
    mocap_pos: np.ndarray  # (nmocap, 3)
    tcp: np.ndarray  # (3,)


@dataclass(frozen=True)
class Robot:
    """One robot.

    Attributes:
        name: Name on the command line.
        file: MJCF file in `scenes/mjcf`.
        act: Turn actions (N, 4) into commands, keeping the commanded hand within [low, high] (N, 3).
        read: Read the robot part of the state.
        settle: Simulate the scene on the CPU until the hand waits at a position, and return that state.
        hand_low, hand_high: Box to which the observed hand position is clipped.
    """

    name: str
    file: str
    act: Callable[[Batch, Tensor, Tensor, Tensor], None]
    read: Callable[[SceneView], RobotState]
    settle: Callable[[mujoco.MjModel, tuple[float, float, float]], Home]
    hand_low: tuple[float, float, float]
    hand_high: tuple[float, float, float]
