"""See a world in a mirror that swaps left and right: the mirror image of a robot is almost another such robot.

Almost, because the model of the Go1 is not quite symmetric: the centre of mass of its trunk is 4.4 mm to the left, and
those of its calves 1.3 mm. With `tuning.mirror` half of the episodes are mirrored: observations and actions are those
of the mirror image. So every terrain is also its mirror image, and every learner sees both without knowing of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.layouts import PARKOUR, Layout
from polytask.envs.parkour.observation import JOINT_SIGNS, MIRRORED_JOINTS, kinds_of


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
    return Mirror(torch.tensor(MIRRORED_JOINTS, device=device), torch.tensor(JOINT_SIGNS, device=device))


def observation_mirror(device: torch.device, layout: Layout = PARKOUR) -> Mirror:
    """Return the mirror of observations."""
    index, sign = list[int](), list[float]()
    for kind in kinds_of(layout):
        index += [len(sign) + entry for entry in kind.order]
        sign += kind.sign
    return Mirror(torch.tensor(index, device=device), torch.tensor(sign, device=device))
