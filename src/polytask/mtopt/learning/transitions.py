"""A batch of transitions, as the buffers draw it and the learner uses it."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Transitions(NamedTuple):
    """B transitions."""

    image: Tensor  # (B, H, W, 3) uint8
    closed: Tensor  # (B,)
    height: Tensor  # (B,) m
    action: Tensor  # (B, A)
    next_image: Tensor  # (B, H, W, 3) uint8
    next_closed: Tensor  # (B,)
    next_height: Tensor  # (B,) m
    reward: Tensor  # (B,) 1 at the last action of a success
    done: Tensor  # (B,) bool, the last action of an episode
    task: Tensor  # (B,) int64, index of the task
    success: Tensor  # (B,) bool, of the episode in the task
    remaining: Tensor  # (B,) int64, actions of the episode after this one
    pose: Tensor  # (B, 3) of the hand: x, y (m) and yaw (rad); NaN where the log has none
    next_pose: Tensor  # (B, 3)
    policy: Tensor  # (B,) int64, version of the weights that acted; 0 for a script
