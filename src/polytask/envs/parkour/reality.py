"""What makes the robots of a group real: they differ in every episode, and their motors have limits and are late."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.options import RealityOptions
from polytask.envs.parkour import body as bodies
from polytask.envs.parkour.body import Body, ModelFields, Ranges
from polytask.robots.go1 import JOINTS, LEGS
from polytask.robots.robot import MotorLimits
from polytask.sim.base import Batch, Drive

DRAWS = bodies.DRAWS + JOINTS  # random numbers of a new robot


@dataclass(frozen=True)
class RealState:
    """Tensors of real robots whose addresses never change; those of `Body` are apart."""

    joint_friction: Tensor  # (N, 12) factor
    target: Tensor  # (N, 12) joint angles that the motors were told
    previous: Tensor  # (N, 12) joint angles that they were told in the control step before
    delay: Tensor  # (N,) int32 time steps of 5 ms until they follow a new target

    @classmethod
    def nominal(cls, count: int, device: torch.device) -> RealState:
        """Allocate the state of robots as the data sheet has them."""
        target, previous = (torch.zeros(count, JOINTS, device=device) for _ in range(2))
        return cls(
            joint_friction=torch.ones(count, JOINTS, device=device),
            target=target,
            previous=previous,
            delay=torch.zeros(count, dtype=torch.int32, device=device),
        )


class Reality:
    """The real robots of a batch."""

    def __init__(self, options: RealityOptions, limits: MotorLimits, batch: Batch, body: Body) -> None:
        """Give the motors of the batch their limits.

        Args:
            options: How far robots differ.
            limits: Limits of the motors.
            batch: The physics.
            body: The robots' bodies, which new episodes overwrite.
        """
        self.options, self.batch, self.body = options, batch, body
        count, device = batch.num_worlds, batch.device
        self.state = RealState.nominal(count, device)
        self._fields = ModelFields(batch.model, device, is_real=True)
        self._ranges = ranges_of(options)
        torque, speed = (torch.tensor(values * LEGS, device=device) for values in (limits.torque, limits.speed))
        # The constants that Warp derives from a body are always those of the nominal one, also after a run continues.
        batch.vary(self._fields(Body.nominal(count, device), self.state.joint_friction))
        state = self.state
        batch.drive(Drive(state.target, state.previous, state.delay, torque, speed))

    def write(self, mask: Tensor) -> None:
        """Write the bodies into the physics where `mask` (N,) is true."""
        self.batch.rewrite(mask, self._fields(self.body, self.state.joint_friction))

    def redraw(self, mask: Tensor, uniform: Tensor) -> None:
        """Replace the robots where `mask` (N,) is true, given random numbers in [0, 1). (N, DRAWS)"""
        own, friction = uniform.split([bodies.DRAWS, JOINTS], dim=-1)
        drawn = Body.draw(own, self._ranges)
        for name, tensor in vars(self.body).items():
            tensor.copy_(torch.where(mask[:, None], getattr(drawn, name), tensor))
        factor = 1 + self.options.joint_friction * (2 * friction - 1)
        self.state.joint_friction.copy_(torch.where(mask[:, None], factor, self.state.joint_friction))
        self.write(mask)

    def hold(self, mask: Tensor, joints: Tensor) -> None:
        """Let the motors of new episodes begin with these joint angles (N, 12) as their targets."""
        for target in (self.state.target, self.state.previous):
            target.copy_(torch.where(mask[:, None], joints, target))

    def follow(self, joints: Tensor) -> None:
        """Give the motors new targets (N, 12)."""
        self.state.previous.copy_(self.state.target)
        self.state.target.copy_(joints)


def ranges_of(options: RealityOptions) -> Ranges:
    """Return how far bodies differ."""
    return Ranges(
        motor=(1 - options.motors, 1 + options.motors),
        load=(0.0, options.load),
        shift=(-options.shift, options.shift),
        friction=(options.min_friction, options.max_friction),
    )
