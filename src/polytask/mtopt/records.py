"""Records that the parts of MT-Opt exchange: tasks, observations, episodes and labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # this module must not import torch: settings import it, and `--help` needs them at once
    from torch import Tensor

# Numbers of an action in the bins, and where nothing declares another layout (`config.action`): translation (3) and the
# sine and cosine of twice the turn, each in [-1, 1]. The angle is doubled because a gripper looks the same after half a
# turn. Then close, open and terminate, which are given where they exceed one half.
ACTION_DIM = 8
COMMANDED = 0.5  # commands are given above this
POSE_DIM = 3  # of the hand: x, y (m) and yaw (rad)


@dataclass(frozen=True)
class TaskInfo:
    """Name, skill and meaning of a task; what counts as success is learned from examples."""

    name: str
    skill: str  # tasks of one skill share their episodes
    sentence: str  # what success looks like, for the person who labels


@dataclass(frozen=True)
class Observation:
    """What a policy sees in N worlds. The image may be a buffer that the next observation overwrites."""

    image: Tensor  # (N, H, W, 3) uint8
    closed: Tensor  # (N,) 1 where the gripper is commanded to close
    height: Tensor  # (N,) of the fingertips above the bins' floor, m
    # The paper's robots log a state vector, too. Networks need the pose to find an action's target in the picture.
    pose: Tensor  # (N, 3) commanded x, y (m) and yaw (rad) of the hand; NaN where a log has none


@dataclass(frozen=True)
class Episode:
    """One attempt at a task as the robot saw it: T actions and T + 1 frames."""

    images: NDArray[np.uint8]  # (T + 1, H, W, 3)
    closed: NDArray[np.float32]  # (T + 1,) 1 where the gripper is closed
    height: NDArray[np.float32]  # (T + 1,) of the fingertips above the bin's floor, m
    actions: NDArray[np.float32]  # (T, A)
    outcome: NDArray[np.uint8]  # (V, H, W, 3) what the success detector judges: V views of the end
    task: str  # commanded
    policy: str  # name and version of what acted
    seed: int  # of the scene
    # What the simulator knows. Only evaluation and the stand-in for a labelling person may read it.
    truth: Mapping[str, bool] = field(default_factory=dict)
    # Commanded pose of the hand: x, y (m) and yaw (rad) in the robot's frame. Logs of other robots may lack it.
    pose: NDArray[np.float32] | None = None  # (T + 1, 3)


@dataclass(frozen=True)
class Label:
    """One verdict on whether an episode's end is a success of a task."""

    episode: int
    task: str
    value: float  # 1 success, 0 failure; a detector gives its probability
    source: str  # "person", "oracle" or "detector:VERSION"
