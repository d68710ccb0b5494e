"""Rewards for bringing the fingers around an object, as Meta-World defines them.

`y` is the direction in which the fingers close; `xz` is the plane in which the tool centre must meet the object.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.manipulation.rewards import hamacher, tolerance
from polytask.envs.manipulation.state import State
from polytask.sim.geometry import distance

_CAGED = 0.97  # caging value above which closing the gripper is rewarded


@dataclass(frozen=True)
class _Distances:
    """Distances that both caging rewards use.

    Attributes:
        radius: Half width of the object between the pads.
        pad: Distance of a pad from the object's centre at which the object counts as caged.
        xz: Distance in the xz plane at which the tool centre counts as being at the object.
    """

    radius: float
    pad: float
    xz: float


@dataclass(frozen=True)
class Cage(_Distances):
    """Parameters of the shared caging reward.

    Attributes:
        effort: Gripper effort that earns the full closing term.
        density: "low" rewards caging and closing together, "high" adds the caging term, "medium" a reaching term.
        reach: Distance at which the reaching term is 1 (density "medium" only).
    """

    effort: float = 1.0
    density: str = "low"
    reach: float = 0.01


def cage(s: State, obj: Tensor, c: Cage, reference: Tensor | None = None) -> Tensor:
    """Return the caging reward in [0, 1] for `obj` (N, 3).

    Args:
        s: State of the worlds.
        obj: The point to cage.
        c: Parameters.
        reference: The point's initial position, which sets the margins; default is the state's `obj_init`.
    """
    reference = s.obj_init if reference is None else reference
    pads = torch.stack([s.left_pad[:, 1], s.right_pad[:, 1]])  # (2, N)
    margins = (pads - reference[:, 1]).abs_().sub_(c.pad).abs_()
    left, right = tolerance((pads - obj[:, 1]).abs_(), c.radius, c.pad, margins)
    caged = hamacher(hamacher(left, right), _meet_xz(s, obj, c.xz, reference))
    closing = s.effort.clamp(0.0, c.effort) / c.effort
    gripped = hamacher(caged, torch.where(caged > _CAGED, closing, 0.0))
    if c.density == "high":
        return (gripped + caged) / 2
    if c.density == "medium":
        margin = (distance(reference, s.tcp_init) - c.reach).abs()
        return (gripped + tolerance(distance(obj, s.tcp), 0.0, c.reach, margin)) / 2
    return gripped


def handle_point(s: State, reach: float) -> Tensor:
    """Return the point (N, 3) of a handle along x to cage: the object, with the x of the hand if within `reach`."""
    x, hand_x = s.obj[:, 0], s.hand[:, 0]
    grip_x = torch.where((x - hand_x).abs() < reach, hand_x, x)
    return torch.cat([grip_x[:, None], s.obj[:, 1:]], -1)


def live_cage_sides(s: State, obj: Tensor, radius: float, pad: float, width: float) -> Tensor:
    """Return how well the gaps of both pads to the object lie within [radius, width], with margins from the pads.

    Gaps are signed: a pad on the wrong side of the object counts as far away. The margins use the current positions of
    the pads, not the initial ones: the original behaves this way, and recorded rewards agree only with this.
    """
    gaps = torch.stack([s.left_pad[:, 1] - obj[:, 1], obj[:, 1] - s.right_pad[:, 1]])  # (2, N)
    left, right = tolerance(gaps, radius, width, gaps.abs().sub_(pad).abs_())
    return hamacher(left, right)


@dataclass(frozen=True)
class LiveCage(_Distances):
    """Parameters of the caging reward of pick-place, push-back, soccer, sweep and sweep-into.

    Attributes:
        threshold: Caging value above which the gripping term counts.
        grip: Slack of the gripping term beyond `radius`; None rewards the gripper's effort instead.
    """

    threshold: float = _CAGED
    grip: float | None = None


def live_cage(s: State, obj: Tensor, c: LiveCage) -> Tensor:
    """Return the caging reward in [0, 1] for `obj` (N, 3) with margins from the current pads."""
    caged = hamacher(live_cage_sides(s, obj, c.radius, c.pad, c.pad), _meet_xz(s, obj, c.xz, s.obj_init))
    if c.grip is None:
        effort = s.effort.clamp(0.0, 1.0)
        gripped = hamacher(caged, torch.where(caged > c.threshold, effort, 0.0))
    else:
        sides = live_cage_sides(s, obj, c.radius, c.pad, c.radius + c.grip)
        gripped = torch.where(caged > c.threshold, sides, 0.0)
    return (caged + gripped) / 2


def _meet_xz(s: State, obj: Tensor, xz: float, reference: Tensor) -> Tensor:
    """Return how well the tool centre meets the object in the xz plane."""
    margin = distance(reference[:, ::2], s.tcp_init[:, ::2]) - xz
    return tolerance(distance(s.tcp[:, ::2], obj[:, ::2]), 0.0, xz, margin)
