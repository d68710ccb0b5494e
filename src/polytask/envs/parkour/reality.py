"""What makes the robots of a group real.

They differ in every episode, their motors have limits and are late, they measure with errors and remember what they
measured, and they are pushed at any time.

N robots, H remembered steps, M measured numbers: the width of `observation.measured`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from polytask.envs.layouts import REMEMBERED
from polytask.envs.options import RealityOptions
from polytask.envs.parkour import body as bodies
from polytask.envs.parkour.body import Body, ModelFields, Ranges
from polytask.envs.parkour.observation import KINDS, Senses
from polytask.envs.parkour.reward import STEP
from polytask.envs.parkour.tiles import SCAN
from polytask.robots.go1 import JOINTS, LEGS
from polytask.robots.robot import MotorLimits
from polytask.sim.base import Batch, Drive
from polytask.sim.geometry import rotate_back

SUBSTEPS = 4  # time steps of 5 ms
# Random numbers of a robot (body, joint friction, delay, bias, mount), and of the errors of a step, as in `Senses`.
_INDIVIDUAL = (bodies.DRAWS, JOINTS, 1, JOINTS, 3)
_SENSES = (3, 2, 2, JOINTS, JOINTS, SCAN)
_ROBOT = slice(0, sum(_INDIVIDUAL))
_NOISE = slice(_ROBOT.stop, _ROBOT.stop + sum(_SENSES))
_PUSH = slice(_NOISE.stop, _NOISE.stop + 3)
DRAWS = _PUSH.stop
_FOOT_NOISE = slice(DRAWS, None)  # more columns, if there is a scan of the feet: as many as it has points
FRAME = sum(len(KINDS[kind].order) for kind in REMEMBERED)  # numbers that are remembered of a step


@dataclass(frozen=True)
class RealState:
    """Tensors of real robots whose addresses never change; those of `Body` are apart."""

    joint_friction: Tensor  # (N, 12) factor
    delay: Tensor  # (N,) int32 time steps of 5 ms until the motors follow a new target
    bias: Tensor  # (N, 12) error of the joint angles that the encoders show
    mount: Tensor  # (N, 3) small rotation of the IMU against the trunk
    target: Tensor  # (N, 12) joint angles that the motors were told
    previous: Tensor  # (N, 12) joint angles that they were told in the control step before
    history: Tensor  # (N, H, 41) what was measured in the last control steps, the latest first
    push_in: Tensor  # (N,) int64 control steps until the next push

    @classmethod
    def nominal(cls, count: int, history: int, device: torch.device) -> RealState:
        """Allocate the state of robots as the data sheet has them."""
        bias, target, previous = (torch.zeros(count, JOINTS, device=device) for _ in range(3))
        return cls(
            joint_friction=torch.ones(count, JOINTS, device=device),
            delay=torch.zeros(count, dtype=torch.int32, device=device),
            bias=bias,
            mount=torch.zeros(count, 3, device=device),
            target=target,
            previous=previous,
            history=torch.zeros(count, history, FRAME, device=device),
            push_in=torch.zeros(count, dtype=torch.int64, device=device),
        )


class Reality:
    """The real robots of a batch. Random numbers `uniform` are in [0, 1). (N, DRAWS)"""

    def __init__(
        self, options: RealityOptions, limits: MotorLimits, batch: Batch, body: Body, foot_points: int = 0
    ) -> None:
        """Give the motors of the batch their limits.

        Args:
            options: How far robots differ, and their errors.
            limits: Limits of the motors.
            batch: The physics.
            body: The robots' bodies, which new episodes overwrite.
            foot_points: Number of points in the scan of the feet.
        """
        self._sizes = (*_SENSES, foot_points)
        self.options, self.batch, self.body = options, batch, body
        count, device = batch.num_worlds, batch.device
        self.state = state = RealState.nominal(count, options.history, device)
        self._fields = ModelFields(batch.model, device, is_real=True)
        self._ranges = ranges_of(options)
        self._noise = torch.tensor(noise_of(options, self._sizes), device=device)  # (163,) or (199,)
        torque, speed = (torch.tensor(values * LEGS, device=device) for values in (limits.torque, limits.speed))
        # The constants that Warp derives from a body are always those of the nominal one, also after a run continues.
        batch.vary(self._fields(Body.nominal(count, device), state.joint_friction))
        batch.drive(Drive(state.target, state.previous, state.delay, torque, speed))

    # Robots

    def write(self, mask: Tensor) -> None:
        """Write the bodies into the physics where `mask` (N,) is true."""
        self.batch.rewrite(mask, self._fields(self.body, self.state.joint_friction))

    def replace(self, mask: Tensor, uniform: Tensor) -> None:
        """Draw other robots where `mask` (N,) is true."""
        o, s = self.options, self.state
        own, friction, delay, bias, mount = uniform[:, _ROBOT].split(_INDIVIDUAL, dim=-1)
        drawn = Body.draw(own, self._ranges)
        steps = round(o.delay / (1000 * STEP / SUBSTEPS))
        rows = mask[:, None]
        pairs = [(tensor, getattr(drawn, name)) for name, tensor in vars(self.body).items()]
        pairs += [
            (s.joint_friction, 1 + o.joint_friction * centred(friction)),
            (s.delay[:, None], (delay * (steps + 1)).to(torch.int32)),
            (s.bias, o.encoder_bias * centred(bias)),
            (s.mount, o.imu_tilt * centred(mount)),
        ]
        for tensor, values in pairs:
            tensor.copy_(torch.where(rows, values, tensor))
        self.write(mask)

    def hidden(self, true: Senses) -> tuple[Tensor, Tensor]:
        """Return what `layouts` lists of a real robot before and after the parts that all robots have.

        Returns:
            What it measures without its errors (N, 163 or 199), and how it differs from others (N, 28).
        """
        s = self.state
        parts = (s.joint_friction - 1, s.delay[:, None] / SUBSTEPS, s.bias, s.mount)
        return torch.cat(true.scaled(), -1), torch.cat(parts, -1)

    # Motors

    def hold(self, mask: Tensor, joints: Tensor) -> None:
        """Let the motors of new episodes begin with these joint angles (N, 12) as their targets."""
        for target in (self.state.target, self.state.previous):
            target.copy_(torch.where(mask[:, None], joints, target))

    def follow(self, joints: Tensor) -> None:
        """Give the motors new targets (N, 12); their servos trust the encoders."""
        self.state.previous.copy_(self.state.target)
        torch.sub(joints, self.state.bias, out=self.state.target)

    # Senses

    def measure(self, true: Senses, uniform: Tensor) -> Senses:
        """Return what the robots measure."""
        s = self.state
        mount = normalize(torch.cat([torch.ones_like(s.mount[:, :1]), s.mount / 2], -1), dim=-1)  # as a quaternion
        roll, pitch = true.tilt.unbind(-1)
        up = torch.stack([-pitch.sin(), pitch.cos() * roll.sin(), pitch.cos() * roll.cos()], -1)  # in the trunk's frame
        x, y, z = rotate_back(mount, up).unbind(-1)
        tilt = torch.stack([torch.atan2(y, z), -torch.asin(x.clamp(-1.0, 1.0))], -1)
        shown = true._replace(spin=rotate_back(mount, true.spin), tilt=tilt, joints=true.joints + s.bias)
        drawn = torch.cat([uniform[:, _NOISE], uniform[:, _FOOT_NOISE]], -1)
        errors = (self._noise * centred(drawn)).split(self._sizes, dim=-1)
        return Senses(*(value + error for value, error in zip(shown, errors, strict=True)))

    def recall(self, seen: Tensor) -> Tensor:
        """Return what robots measure (N, M) followed by what they remember. (N, M + 41 H)"""
        return torch.cat([seen, self.state.history.flatten(1)], -1)

    def remember(self, seen: Tensor) -> None:
        """Add what robots measure (N, M) to their memory."""
        history = self.state.history
        history.copy_(torch.cat([frame(seen)[:, None], history], 1)[:, : history.shape[1]])

    def forget(self, mask: Tensor, seen: Tensor) -> None:
        """Let the memory of new episodes consist of their first step alone."""
        history = self.state.history
        history.copy_(torch.where(mask[:, None, None], frame(seen)[:, None], history))

    # Pushes

    def pushes(self, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Count down to the next pushes; return where one is due (N,), and the velocity (N, 2) that it adds."""
        self.state.push_in.sub_(1)
        is_due = self.state.push_in <= 0
        self.schedule(is_due, uniform)
        return is_due, self.options.push * centred(uniform[:, _PUSH][:, 1:])

    def schedule(self, mask: Tensor, uniform: Tensor) -> None:
        """Draw the time of the next push where `mask` (N,) is true."""
        low, high = (round(seconds / STEP) for seconds in (self.options.min_push_pause, self.options.max_push_pause))
        steps = low + (uniform[:, _PUSH][:, 0] * (high - low + 1)).long()
        self.state.push_in.copy_(torch.where(mask, steps, self.state.push_in))


def centred(uniform: Tensor) -> Tensor:
    """Turn random numbers in [0, 1) into ones in [-1, 1)."""
    return 2 * uniform - 1


def frame(seen: Tensor) -> Tensor:
    """Return what is remembered (N, 41) of what robots measure (N, M): all about the trunk and the joints."""
    return torch.cat([seen[:, 0:5], seen[:, 8:44]], -1)


def noise_of(options: RealityOptions, sizes: Sequence[int]) -> list[float]:
    """Return the largest error of each number in `Senses`, whose parts have these sizes."""
    o = options
    errors = (o.spin_noise, o.tilt_noise, o.heading_noise, o.joint_noise, o.speed_noise, o.scan_noise, o.scan_noise)
    return [error for error, size in zip(errors, sizes, strict=True) for _ in range(size)]


def ranges_of(options: RealityOptions) -> Ranges:
    """Return how far bodies differ."""
    return Ranges(
        motor=(1 - options.motors, 1 + options.motors),
        load=(0.0, options.load),
        shift=(-options.shift, options.shift),
        friction=(options.min_friction, options.max_friction),
    )
