"""Differences between the robots of the worlds: motors, load and friction.

The benchmark draws them once, when a world is created. `reality.py` draws others in every episode.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import Tensor

from polytask.robots.go1 import DAMPING, JOINTS, STIFFNESS

Span = tuple[float, float]
DRAWS = 2 * JOINTS + 5
_LOAD_SIZE = (0.3, 0.2, 0.1)  # metres of the box that a load counts as, around the trunk's centre of mass
_FIELDS = ("actuator_gainprm", "actuator_biasprm", "body_mass", "body_ipos", "geom_friction")
_REAL_FIELDS = ("body_inertia", "body_subtreemass", "dof_frictionloss")


@dataclass(frozen=True)
class Ranges:
    """How far bodies differ."""

    motor: Span = (0.8, 1.2)  # factor of a motor's stiffness and damping
    load: Span = (0.0, 3.0)  # kilograms added to the trunk
    shift: Span = (-0.2, 0.2)  # metres by which the trunk's centre of mass is shifted along each axis
    friction: Span = (0.6, 2.0)


BENCHMARK = Ranges()


@dataclass(frozen=True)
class Body:
    """Physical constants of each robot."""

    stiffness: Tensor  # (N, 12) factor
    damping: Tensor  # (N, 12) factor
    load: Tensor  # (N, 1)
    shift: Tensor  # (N, 3)
    friction: Tensor  # (N, 1)

    @classmethod
    def draw(cls, uniform: Tensor, ranges: Ranges = BENCHMARK) -> Body:
        """Create bodies from random numbers in [0, 1). (N, DRAWS)"""
        parts = uniform.split([JOINTS, JOINTS, 1, 3, 1], dim=-1)
        spans = (ranges.motor, ranges.motor, ranges.load, ranges.shift, ranges.friction)
        return cls(*(low + (high - low) * part for part, (low, high) in zip(parts, spans, strict=True)))

    @classmethod
    def nominal(cls, count: int, device: torch.device) -> Body:
        """Create bodies as the data sheet has them: no load, the ground's friction."""

        def rows(width: int, value: float) -> Tensor:
            return torch.full((count, width), value, device=device)

        return cls(rows(JOINTS, 1.0), rows(JOINTS, 1.0), rows(1, 0.0), rows(3, 0.0), rows(1, 1.0))

    def observation(self) -> Tensor:
        """Return the part of the observation that describes the body. (N, 29)"""
        return torch.cat([self.load, self.shift, self.friction, self.stiffness - 1, self.damping - 1], -1)


class ModelFields:
    """Turns bodies into the fields of the model that differ between worlds.

    What it needs of the model is on the device from the start, so that a graph can capture this.
    """

    def __init__(self, model: mujoco.MjModel, device: torch.device, *, is_real: bool) -> None:
        """Copy what all worlds share.

        Args:
            model: The scene with the robot.
            device: Device of the fields.
            is_real: The robot is not the benchmark's.
        """
        names = (*_FIELDS, *_REAL_FIELDS) if is_real else _FIELDS
        self._shared = {
            name: torch.tensor(getattr(model, name), dtype=torch.float32, device=device)[None] for name in names
        }
        self._trunk, self._is_real = model.body("trunk").id, is_real
        self._robot = torch.from_numpy(model.geom_priority > 0).nonzero()[:, 0].to(device)  # indices of its geoms
        self._inertia = torch.tensor(_load_inertia(model), dtype=torch.float32, device=device)

    def __call__(self, body: Body, joint_friction: Tensor | None = None) -> dict[str, Tensor]:
        """Return the fields (N, ...) of bodies; `joint_friction` (N, 12) is a factor, for a real robot only."""
        trunk, load = self._trunk, body.load[:, 0]
        fields = {name: shared.repeat(len(load), *[1] * (shared.dim() - 1)) for name, shared in self._shared.items()}
        fields["actuator_gainprm"][..., 0] = STIFFNESS * body.stiffness
        fields["actuator_biasprm"][..., 1] = -STIFFNESS * body.stiffness
        fields["actuator_biasprm"][..., 2] = -DAMPING * body.damping
        fields["body_mass"][:, trunk] += load
        fields["body_ipos"][:, trunk] += body.shift
        if joint_friction is None:
            # The original averages the friction of robot and ground (1). Here only that of the robot counts.
            fields["geom_friction"][:, self._robot, 0] = (body.friction + 1) / 2
            return fields
        fields["geom_friction"][:, self._robot, 0] = body.friction.expand(-1, len(self._robot))
        fields["body_inertia"][:, trunk] += body.load * self._inertia
        fields["body_subtreemass"][:, : trunk + 1] += body.load  # of the trunk and of the whole scene
        fields["dof_frictionloss"][:, -JOINTS:] *= joint_friction
        return fields


def _load_inertia(model: mujoco.MjModel) -> list[float]:
    """Return the moments of inertia of one kilogram of load, about the axes of `body_inertia` of the trunk."""
    x, y, z = (size**2 / 12 for size in _LOAD_SIZE)
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.body("trunk").iquat)
    # The axes are the trunk's own in another order, turned by less than two degrees; what that mixes is left out.
    moments: list[float] = (np.square(turn.reshape(3, 3)).T @ (y + z, x + z, x + y)).tolist()
    return moments
