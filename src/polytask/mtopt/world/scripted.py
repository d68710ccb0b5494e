"""Scripted picking and placing at random targets, for the first data.

Besides motion noise, scripts sometimes terminate, open or close at the wrong time, or move to a random place before the
grip. A learner that never saw where such actions lead overrates them.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from polytask.mtopt.config.world import ScriptConfig, WorldConfig
from polytask.mtopt.records import ACTION_DIM, Observation
from polytask.mtopt.world import layout
from polytask.mtopt.world.drop import uniform
from polytask.sim.view import constant

_CLOSE, _OPEN, _END = 5, 6, 7
_LOW = 0.02  # the hand counts as down when its command is this near to the height wanted, m
_NEAR = 0.01  # and as above the target when it is this near, m


class Hands(Protocol):
    """The part of the bins that a script looks at."""

    config: WorldConfig
    num_envs: int
    device: torch.device
    place: Tensor  # (N, 3) commanded fingertips
    yaw: Tensor  # (N,) commanded turn


class _Scripted:
    """The common part of picking and placing: a random target, the way to it, and noise."""

    name = "scripted"

    def __init__(self, world: Hands, config: ScriptConfig | None, middle: tuple[float, float], low: float) -> None:
        self.world, self.config = world, config or ScriptConfig()
        self.generator = torch.Generator(world.device).manual_seed(self.config.seed)
        self._middle, self._low = middle, low
        shape = (world.num_envs,)
        self.target = torch.zeros(*shape, 2, device=world.device)
        self.yaw = torch.zeros(shape, device=world.device)
        self.phase = torch.zeros(shape, dtype=torch.long, device=world.device)
        self.reset()

    def reset(self, mask: Tensor | None = None) -> None:
        """Draw new targets where `mask` (N,) holds."""
        count, inner = self.world.num_envs, layout.INNER - self.config.margin
        target = uniform((count, 2), -inner, inner, self.generator) + constant(self._middle, self.target)
        yaw = uniform((count,), -math.pi / 2, math.pi / 2, self.generator)
        mask = torch.ones_like(self.phase, dtype=torch.bool) if mask is None else mask
        self.target.copy_(torch.where(mask[:, None], target, self.target))
        self.yaw.copy_(torch.where(mask, yaw, self.yaw))
        self.phase.masked_fill_(mask, 0)

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return the next actions (N, 8): above the target, down, grip, up, end."""
        world, action = self.world, torch.zeros(self.world.num_envs, ACTION_DIM, device=self.world.device)
        away, depth = self.target - world.place[:, :2], self._low - world.place[:, 2]
        distance = away.abs().amax(-1)
        is_above = distance < world.config.reach + _NEAR
        is_there = (depth > -_LOW) & (distance < 2 * _NEAR)
        if world.config.assisted:  # the hand descends by itself after the action that grips
            is_there, depth = is_above, torch.zeros_like(depth)
        detours = self._detours()
        phase = torch.where((self.phase == 0) & is_there & ~detours, 1, self.phase)
        # Phase 0 moves sideways, and down as soon as the target is within reach; phases 1 to 3 grip, rise and end.
        moves = (phase == 0) | (phase == 1) & world.config.assisted
        action[:, :2] = torch.where(moves[:, None], away / world.config.reach, 0.0)
        action[:, 2] = torch.where(moves & is_above, depth / world.config.reach, 0.0) + (phase == 2).float()
        double = 2 * torch.where(moves, self.yaw - world.yaw, 0.0)
        action[:, 3], action[:, 4] = double.sin(), double.cos()
        if self.config.detour > 0:
            action = torch.where(detours[:, None], self._random_motion(), action)
        action[:, self._grip()] = (phase == 1).float()
        action[:, _END] = (phase == 3).float()
        is_up = world.place[:, 2] > layout.START_HEIGHT - 2 * _LOW
        self.phase.copy_(torch.where((phase == 1) | (phase == 2) & is_up, phase + 1, phase))
        return self._disturb(action)

    def _grip(self) -> int:
        return _CLOSE

    def _detours(self) -> Tensor:
        """Draw which hands (N,) move to a random place instead of the target."""
        if self.config.detour <= 0:
            return torch.zeros_like(self.phase, dtype=torch.bool)
        lots = torch.rand(len(self.phase), generator=self.generator, device=self.phase.device)
        return (self.phase == 0) & (lots < self.config.detour)

    def _random_motion(self) -> Tensor:
        """Draw random level motions (N, 8) with a random turn."""
        action = torch.zeros(len(self.phase), ACTION_DIM, device=self.phase.device)
        action[:, :2] = uniform((len(action), 2), -1.0, 1.0, self.generator)
        double = uniform((len(action),), -math.pi, math.pi, self.generator)
        action[:, 3], action[:, 4] = double.sin(), double.cos()
        return action

    def _disturb(self, action: Tensor) -> Tensor:
        """Add motion noise, clip, and sometimes replace the script's command by another one.

        The other command replaces the script's: an action that closes and opens at once would teach neither.
        """
        config = self.config
        noise = torch.randn(len(action), 5, generator=self.generator, device=action.device)
        action[:, :5] += config.noise * noise
        # One uniform number decides: the chances to close, to open and to end are consecutive intervals from 0 on.
        lot = torch.rand(len(action), 1, generator=self.generator, device=action.device)
        grip, last = config.early_grip, 2 * config.early_grip + config.early_end
        starts, ends = constant((0.0, grip, 2 * grip), action), constant((grip, 2 * grip, last), action)
        drawn = ((lot >= starts) & (lot < ends)).to(action.dtype)  # (N, 3)
        action[:, _CLOSE:] = torch.where(lot < last, drawn, action[:, _CLOSE:])
        return action.clamp(-1.0, 1.0)


class ScriptedPick(_Scripted):
    """Go to a random point of the right bin, down, close, lift, end."""

    name = "scripted-pick"

    def __init__(self, world: Hands, config: ScriptConfig | None = None) -> None:
        """Draw the first targets."""
        super().__init__(world, config, layout.RIGHT_BIN, layout.PICK_HEIGHT)


class ScriptedPlace(_Scripted):
    """Go to a random point of the left bin, down, open, rise, end; with a lid in the hand this is the cover script."""

    name = "scripted-place"

    def __init__(self, world: Hands, config: ScriptConfig | None = None, *, covers: bool = False) -> None:
        """Draw the first targets; a lid (`covers`) is released higher, over an object."""
        low = layout.COVER_HEIGHT if covers else layout.PLACE_HEIGHT
        super().__init__(world, config, layout.LEFT_BIN, low)

    def _grip(self) -> int:
        return _OPEN
