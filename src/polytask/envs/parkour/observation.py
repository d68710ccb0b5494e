"""The observation of parkour as a tensor: its parts in the order of `layouts.parkour_layout`, scales and mirror images.

A robot measures the first parts, with errors if it is a real one. The others are privileged: only a simulator knows
them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from polytask.envs.domain import EnvConfig
from polytask.envs.layouts import Layout, parkour_layout
from polytask.envs.parkour.episode import ParkourEpisode
from polytask.envs.parkour.feet import FOOT_SCAN, POINTS, STEPS
from polytask.envs.parkour.tiles import SCAN, SCAN_X, SCAN_Y
from polytask.robots.go1 import DEFAULT, JOINTS, LEGS, Motion
from polytask.sim.view import constant

SPIN, SPEED, VELOCITY = 0.25, 0.05, 2.0  # factors of angular velocity, joint speeds and velocity
OTHER_SIDE = (1, 0, 3, 2)  # leg -> leg on the other side
MIRRORED_JOINTS = tuple(3 * leg + joint for leg in OTHER_SIDE for joint in range(3))
JOINT_SIGNS = (-1.0, 1.0, 1.0) * LEGS  # a hip turns about the x axis, which the mirror reverses
_MIRRORED_FOOT_SCAN = tuple(
    POINTS * leg + len(STEPS) * (row + 1) - 1 - column
    for leg in OTHER_SIDE for row in range(len(STEPS)) for column in range(len(STEPS))
)  # fmt: skip
_MIRRORED_SCAN = tuple(
    len(SCAN_Y) * (row + 1) - 1 - column for row in range(len(SCAN_X)) for column in range(len(SCAN_Y))
)


class Kind(NamedTuple):
    """What is known about a part of an observation."""

    scale: tuple[float, ...]  # factors that bring its entries to order one
    order: tuple[int, ...]  # entry of the part that the mirror image has where
    sign: tuple[float, ...]  # and with which sign


def _plain(size: int, scale: float = 1.0, order: tuple[int, ...] = (), sign: tuple[float, ...] = ()) -> Kind:
    return Kind((scale,) * size, order or tuple(range(size)), sign or (1.0,) * size)


# legged_gym's factors of commands and heights. The other parts have them already. The body, which legged_gym does not
# show, is brought to order one.
KINDS: dict[str, Kind] = {
    "angular velocity": _plain(3, sign=(-1.0, 1.0, -1.0)),
    "roll and pitch": _plain(2, sign=(-1.0, 1.0)),
    "bearing of the next two waypoints": _plain(2, sign=(-1.0, -1.0)),
    "commanded speed": _plain(1, 2.0),
    "joint angles": _plain(JOINTS, order=MIRRORED_JOINTS, sign=JOINT_SIGNS),
    "joint speeds": _plain(JOINTS, order=MIRRORED_JOINTS, sign=JOINT_SIGNS),
    "last action": _plain(JOINTS, order=MIRRORED_JOINTS, sign=JOINT_SIGNS),
    "foot contacts": _plain(LEGS, order=OTHER_SIDE),
    "height scan": _plain(SCAN, 5.0, order=_MIRRORED_SCAN),
    "foot scan": _plain(FOOT_SCAN, 5.0, order=_MIRRORED_FOOT_SCAN),
    "velocity": _plain(3, sign=(1.0, -1.0, 1.0)),
    "load, shift of its centre and friction": Kind(
        (1 / 3, 5.0, 5.0, 5.0, 1.0), (0, 1, 2, 3, 4), (1.0, 1.0, -1.0, 1.0, 1.0)
    ),
    "motor stiffness and damping": _plain(
        2 * JOINTS, 5.0, order=MIRRORED_JOINTS + tuple(JOINTS + joint for joint in MIRRORED_JOINTS)
    ),
    "friction of the joints": _plain(JOINTS, 2.0, order=MIRRORED_JOINTS),
    "delay of the motors": _plain(1),
    "bias of the joint angles": _plain(JOINTS, 50.0, order=MIRRORED_JOINTS, sign=JOINT_SIGNS),
    "tilt of the IMU's mount": _plain(3, 25.0, sign=(-1.0, 1.0, -1.0)),
}


def layout_of(config: EnvConfig) -> Layout:
    """Return the layout of the observations of an environment."""
    return parkour_layout(
        is_real=config.robot.motors is not None,
        is_privileged=config.options.privileged != "none",
        history=config.options.reality.history,
        has_foot_scan=config.options.scan.feet,
    )


def kinds_of(layout: Layout) -> list[Kind]:
    """Return the kinds of the parts of a layout, in order."""
    return [KINDS[part.kind or part.name] for part in layout.parts]


def scale_of(layout: Layout) -> tuple[float, ...]:
    """Return the factors of all entries, for `normalize=fixed`."""
    return tuple(factor for kind in kinds_of(layout) for factor in kind.scale)


class Senses(NamedTuple):
    """What a robot measures with errors, if it is a real one."""

    spin: Tensor  # (N, 3) angular velocity
    tilt: Tensor  # (N, 2) roll, pitch
    heading: Tensor  # (N, 2) angles to the next two waypoints
    joints: Tensor  # (N, 12)
    speeds: Tensor  # (N, 12)
    scan: Tensor  # (N, 132)
    foot_scan: Tensor  # (N, 36), or (N, 0) if it is not shown

    @classmethod
    def true(cls, motion: Motion, e: ParkourEpisode) -> Senses:
        """Return what a robot without errors measures."""
        tilt = torch.stack([motion.roll, motion.pitch], -1)
        return cls(motion.spin_body, tilt, e.heading, motion.joints, motion.speeds, e.scan, e.foot_scan)

    def scaled(self) -> Senses:
        """Return the parts of an observation that show these."""
        joints = self.joints - constant(DEFAULT, self.joints)
        return self._replace(spin=SPIN * self.spin, joints=joints, speeds=SPEED * self.speeds)


def measured(senses: Senses, e: ParkourEpisode) -> Tensor:
    """Return the parts of an observation that a robot measures. (N, 180), or (N, 216) with the scan of the feet"""
    s = senses.scaled()
    contact = e.contact.float() - 0.5
    body = (s.spin, s.tilt, s.heading, e.command[:, None], s.joints, s.speeds, e.action, contact)
    return torch.cat([*body, s.scan, s.foot_scan], -1)
