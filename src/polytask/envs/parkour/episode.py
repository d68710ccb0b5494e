"""The state of parkour worlds between steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.envs.parkour.tiles import SCAN
from polytask.robots.go1 import JOINTS, LEGS


@dataclass(frozen=True)
class ParkourEpisode:
    """Tensors whose addresses never change, also when a new episode starts."""

    level: Tensor  # (N,) int64 of this episode
    own_level: Tensor  # (N,) int64 that the curriculum has moved the world to; an episode may revisit an easier one
    goal: Tensor  # (N,) int64 waypoints reached
    near: Tensor  # (N,) int64 steps near the current waypoint
    goal_step: Tensor  # (N,) int64 step at which the last waypoint was reached
    command: Tensor  # (N,) commanded speed
    action: Tensor  # (N, 12) last action
    touching: Tensor  # (N, 4) bool: feet on the ground
    contact: Tensor  # (N, 4) bool: feet on the ground in this step or the one before
    heading: Tensor  # (N, 2) angles to the current and the next waypoint, at the last look
    scan: Tensor  # (N, 132) height above the ground, at the last look
    foot_scan: Tensor  # (N, 36) height above the ground around the feet; (N, 0) if it is not shown
    mirrored: Tensor  # (N,) bool: the episode is seen in a mirror
    clock: Tensor  # () int64 steps since the environment was created

    @classmethod
    def begin(cls, level: Tensor, foot_points: int = 0) -> ParkourEpisode:
        """Allocate the tensors for worlds on these levels, with so many points around the feet."""
        n, device = len(level), level.device
        goal, near, goal_step = (torch.zeros(n, dtype=torch.int64, device=device) for _ in range(3))
        touching, contact = (torch.zeros(n, LEGS, dtype=torch.bool, device=device) for _ in range(2))
        widths = (JOINTS, 2, SCAN, foot_points)
        action, heading, scan, foot_scan = (torch.zeros(n, width, device=device) for width in widths)
        return cls(
            level=level.clone(),
            own_level=level.clone(),
            goal=goal,
            near=near,
            goal_step=goal_step,
            command=torch.zeros(n, device=device),
            action=action,
            touching=touching,
            contact=contact,
            heading=heading,
            scan=scan,
            foot_scan=foot_scan,
            mirrored=torch.zeros(n, dtype=torch.bool, device=device),
            clock=torch.zeros((), dtype=torch.int64, device=device),
        )
