"""Scripted pulling and pushing of a drawer's handle, for the first data.

Besides motion noise, the script sometimes ends too early, wanders, or aims beside the handle: a learner that never saw
where such actions lead overrates them.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.records import Observation
from polytask.mtopt.world.drop import uniform

_ABOVE = 0.12  # of the handle: the height at which the hand crosses it, m
_GRASP = 0.015  # of the hand above the handle when it hooks it, m
_FRONT = 0.075  # before the handle: where the hand goes down to push it, m
_NEAR = 0.025  # from a waypoint: the next one follows, m
_MISS = 0.03  # largest error of the aim along x and y, m
_WAY = (0.05, 0.22)  # how far the handle is dragged, m


class Drawers(Protocol):
    """The part of a drawer world that the script looks at."""

    config: WorldConfig
    num_envs: int
    device: torch.device
    place: Tensor  # (N, 3) commanded hand

    def handle(self) -> Tensor:
        """Return the positions (N, 3) of the handles."""
        ...


class DrawerScript:
    """Go above the handle or before it, down, then pull or push for a random way, and end."""

    def __init__(self, world: Drawers, config: ScriptConfig, *, pulls: bool) -> None:
        """Draw the first aims."""
        self.name = "scripted-pull" if pulls else "scripted-push"
        self.world, self.config = world, config
        self._sign = -1.0 if pulls else 1.0  # of the drag along y
        self._before = 0.0 if pulls else _FRONT  # from where the hand goes down to the handle, along y
        self.generator = torch.Generator(world.device).manual_seed(config.seed)
        self.aim = torch.zeros(world.num_envs, 2, device=world.device)
        self.left = torch.zeros(world.num_envs, device=world.device)  # way that the handle is still to be dragged
        self.phase = torch.zeros(world.num_envs, dtype=torch.long, device=world.device)  # over, down, drag, end
        self.reset()

    def reset(self, mask: Tensor | None = None) -> None:
        """Draw new aims where `mask` (N,) holds."""
        count = self.world.num_envs
        aim = uniform((count, 2), -_MISS, _MISS, self.generator)
        left = uniform((count,), *_WAY, self.generator)
        mask = torch.ones_like(self.phase, dtype=torch.bool) if mask is None else mask
        self.aim.copy_(torch.where(mask[:, None], aim, self.aim))
        self.left.copy_(torch.where(mask, left, self.left))
        self.phase.masked_fill_(mask, 0)

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return the next actions (N, 4)."""
        world, reach = self.world, self.world.config.reach
        handle, place = world.handle(), world.place
        aim = handle[:, :2] + self.aim
        aim[:, 1] -= self._before
        low, high = handle[:, 2] + _GRASP, handle[:, 2] + _ABOVE
        is_over = (place[:, :2] - aim).abs().amax(-1) < _NEAR
        is_down = (place[:, 2] - low).abs() < _NEAR
        phase = torch.where((self.phase == 0) & is_over, 1, self.phase)
        phase = torch.where((phase == 1) & is_down, 2, phase)
        phase = torch.where((phase == 2) & (self.left <= 0), 3, phase)
        drags = phase == 2
        way = torch.minimum(self.left, torch.full_like(self.left, reach))
        motion = torch.zeros_like(place)
        motion[:, :2] = torch.where((phase < 2)[:, None], aim - place[:, :2], motion[:, :2])
        motion[:, 1] = torch.where(drags, self._sign * way, motion[:, 1])
        motion[:, 2] = torch.where(phase < 2, torch.where(phase == 0, high, low) - place[:, 2], motion[:, 2])
        self.left -= torch.where(drags, way, 0.0)
        self.phase.copy_(phase)
        return self._disturb(torch.cat([motion / reach, (phase == 3).float()[:, None]], -1))

    def _disturb(self, action: Tensor) -> Tensor:
        """Add motion noise, sometimes wander, and sometimes end too early."""
        config, count = self.config, len(action)
        noise = torch.randn(count, 3, generator=self.generator, device=action.device)
        lots = torch.rand(count, 2, 1, generator=self.generator, device=action.device)
        away = uniform((count, 3), -1.0, 1.0, self.generator)
        motion = torch.where(lots[:, 0] < config.detour, away, action[:, :3] + config.noise * noise)
        ends = torch.where(lots[:, 1] < config.early_end, 1.0, action[:, 3:])
        return torch.cat([motion, ends], -1).clamp(-1.0, 1.0)
