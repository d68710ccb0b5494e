"""Differences between the robots of the worlds: motors, load and friction, drawn once when a world is created."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import torch
from torch import Tensor

from polytask.robots.go1 import DAMPING, JOINTS, STIFFNESS

_MOTOR = (0.8, 1.2)  # factor of a motor's stiffness and damping
_LOAD = (0.0, 3.0)  # kilograms added to the trunk
_SHIFT = (-0.2, 0.2)  # metres by which the trunk's centre of mass is shifted along each axis
_FRICTION = (0.6, 2.0)
DRAWS = 2 * JOINTS + 5


@dataclass(frozen=True)
class Body:
    """Physical constants of each robot."""

    stiffness: Tensor  # (N, 12) factor
    damping: Tensor  # (N, 12) factor
    load: Tensor  # (N, 1)
    shift: Tensor  # (N, 3)
    friction: Tensor  # (N, 1)

    @classmethod
    def draw(cls, uniform: Tensor) -> Body:
        """Create bodies from random numbers in [0, 1). (N, DRAWS)"""
        parts = uniform.split([JOINTS, JOINTS, 1, 3, 1], dim=-1)
        ranges = (_MOTOR, _MOTOR, _LOAD, _SHIFT, _FRICTION)
        return cls(*(low + (high - low) * part for part, (low, high) in zip(parts, ranges, strict=True)))

    @classmethod
    def nominal(cls, count: int, device: torch.device) -> Body:
        """Create bodies as the data sheet has them: no load, the ground's friction."""

        def rows(width: int, value: float) -> Tensor:
            return torch.full((count, width), value, device=device)

        return cls(rows(JOINTS, 1.0), rows(JOINTS, 1.0), rows(1, 0.0), rows(3, 0.0), rows(1, 1.0))

    def observation(self) -> Tensor:
        """Return the part of the observation that describes the body. (N, 29)"""
        return torch.cat([self.load, self.shift, self.friction, self.stiffness - 1, self.damping - 1], -1)

    def fields(self, model: mujoco.MjModel) -> dict[str, Tensor]:
        """Return the fields of the model that differ between worlds. (N, ...) each"""
        count, device = len(self.load), self.load.device
        names = ("actuator_gainprm", "actuator_biasprm", "body_mass", "body_ipos", "geom_friction")
        fields = {}
        for name in names:
            shared = torch.tensor(getattr(model, name), dtype=torch.float32, device=device)
            fields[name] = shared.expand(count, *shared.shape).clone()
        trunk = model.body("trunk").id
        fields["actuator_gainprm"][..., 0] = STIFFNESS * self.stiffness
        fields["actuator_biasprm"][..., 1] = -STIFFNESS * self.stiffness
        fields["actuator_biasprm"][..., 2] = -DAMPING * self.damping
        fields["body_mass"][:, trunk] += self.load[:, 0]
        fields["body_ipos"][:, trunk] += self.shift
        # The original averages the friction of the robot and of the ground (1). Here only that of the robot counts.
        robot = torch.from_numpy(model.geom_priority > 0).to(device)
        fields["geom_friction"][:, robot, 0] = (self.friction + 1) / 2
        return fields
