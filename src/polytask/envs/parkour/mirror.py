"""See a world in a mirror that swaps left and right: the robot is symmetric, so its mirror image is another robot.

With `tuning.mirror` half of the episodes are mirrored: observations and actions are those of the mirror image. So every
terrain is also its mirror image, and every learner sees both without knowing of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.parkour.tiles import SCAN_X, SCAN_Y
from polytask.robots.go1 import JOINTS, LEGS

_OTHER_SIDE = (1, 0, 3, 2)  # leg -> leg on the other side
_JOINT_SIGNS = (-1.0, 1.0, 1.0) * LEGS  # a hip turns about the x axis, which the mirror reverses


@dataclass(frozen=True)
class Mirror:
    """Which entry of a vector (D,) the mirror image has where, and with which sign."""

    index: Tensor  # (D,) int64
    sign: Tensor  # (D,)

    def __call__(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the mirror images of vectors (N, D) where `mask` (N,) is true."""
        return torch.where(mask[:, None], x[:, self.index] * self.sign, x)


def action_mirror(device: torch.device) -> Mirror:
    """Return the mirror of actions."""
    index = [3 * leg + joint for leg in _OTHER_SIDE for joint in range(3)]
    return Mirror(torch.tensor(index, device=device), torch.tensor(_JOINT_SIGNS, device=device))


def observation_mirror(device: torch.device) -> Mirror:
    """Return the mirror of observations; its parts are those of `ParkourGroup._observation`."""
    joints = [3 * leg + joint for leg in _OTHER_SIDE for joint in range(3)]
    scan = [len(SCAN_Y) * (row + 1) - 1 - column for row in range(len(SCAN_X)) for column in range(len(SCAN_Y))]
    plain, upright = (1.0,), (1.0, -1.0, 1.0)
    parts: list[tuple[list[int], tuple[float, ...]]] = [
        ([0, 1, 2], (-1.0, 1.0, -1.0)),  # angular velocity
        ([0, 1], (-1.0, 1.0)),  # roll, pitch
        ([0, 1], (-1.0, -1.0)),  # headings
        ([0], plain),  # commanded speed
        *[(joints, _JOINT_SIGNS)] * 3,  # angles, speeds, last action
        (list(_OTHER_SIDE), plain * LEGS),  # foot contacts
        (scan, plain * len(scan)),
        ([0, 1, 2], upright),  # velocity
        ([0], plain),  # load
        ([0, 1, 2], upright),  # centre of mass
        ([0], plain),  # friction
        *[(joints, plain * JOINTS)] * 2,  # stiffness, damping
    ]
    index, sign, start = list[int](), list[float](), 0
    for order, signs in parts:
        index += [start + entry for entry in order]
        sign += signs
        start += len(order)
    return Mirror(torch.tensor(index, device=device), torch.tensor(sign, device=device))
