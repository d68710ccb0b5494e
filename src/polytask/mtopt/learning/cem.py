"""Maximize a score over actions by the cross-entropy method, for a whole batch of states at once.

An action has parts of three kinds, and each is drawn so that a robot can take the action:

- commands: one of several *modes*, such as move only, close, open, terminate. An action that closes and opens at once
  is never scored, because no data shows its value. Modes are drawn by systematic sampling with the same shares in every
  round, so that each mode with a share of one sample or more is tried in every state. A mode that a state cannot use,
  such as opening an open hand, gives its share to the others;
- motions: uniform in [-1, 1] at first, then normal around the elites, cut to the box;
- angles: drawn as points of the plane and put on the unit circle, so that sine and cosine belong to one angle.

The world declares how many there are of each (`ActionConfig`). Letters: B states, S samples, A numbers of an action, D
numbers of its motions and angles, M modes.

Every mode is searched by itself: each round after the first draws a mode's samples around the best ones of that mode.
One normal distribution for all modes would follow the mode whose values are high everywhere (moving), and miss a narrow
peak of another (closing, above an object). The best action of all rounds is the result.

Differences from QT-Opt: there all parts are one normal distribution. With sparse rewards its search ends in
combinations that no episode contains, and whose values are therefore arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.action import NO_EFFECT, ActionConfig
from polytask.mtopt.config.learning import CEMConfig

WHOLE_SPREAD = 3**-0.5  # standard deviation of a uniform number in [-1, 1]


@dataclass
class Sampler:
    """The distribution that the next round is drawn from."""

    config: CEMConfig
    mode: Tensor  # (B, M) shares
    mean: Tensor | None = None  # (B, M, D) of motions and angles in each mode; None: the whole range
    std: Tensor | None = None  # (B, M, D)
    layout: ActionConfig = field(default_factory=ActionConfig)

    @property
    def reach(self) -> list[float]:
        """Return the part of the range of each motion that is searched."""
        return self.config.axes or [1.0] * len(self.layout.axes)


def usable_modes(closed: Tensor, config: CEMConfig, layout: ActionConfig | None = None) -> Tensor | None:
    """Return which modes (B, M) have an effect on hands (B,) whose gripper is closed (1) or not; None for all."""
    modes = (layout or ActionConfig()).modes
    idle = {name: when for name, when in NO_EFFECT.items() if name in modes}
    if not config.masked or not idle:
        return None
    is_closed = closed > 0.5
    # Filled column by column: a tensor made from a list is copied to the device, and the host waits for the copy.
    usable = torch.ones(len(closed), len(modes), dtype=torch.bool, device=closed.device)
    for name, idle_when_closed in idle.items():
        usable[:, modes.index(name)] = ~is_closed if idle_when_closed else is_closed
    return usable


def first_sampler(
    num_states: int,
    config: CEMConfig,
    device: torch.device,
    usable: Tensor | None = None,
    layout: ActionConfig | None = None,
) -> Sampler:
    """Start from the whole range of actions.

    Args:
        num_states: B.
        config: Settings of the search.
        device: Where to draw.
        usable: Modes (B, M) to try in each state; None for all. A state without any gets all.
        layout: Of an action; None for that of the arm.

    Raises:
        UserError: If the shares of the modes, the axes or the number of elites are not valid.
    """
    layout = layout or ActionConfig()
    modes, shares = layout.modes, config.modes or layout.shares
    if len(shares) != len(modes) or min(shares) < 0 or sum(shares) <= 0:
        raise UserError(f"modes must be {len(modes)} shares ({', '.join(modes)}) with a positive sum, not {shares}")
    if config.axes and (len(config.axes) != len(layout.axes) or not all(0 <= reach <= 1 for reach in config.axes)):
        raise UserError(f"axes must be {len(layout.axes)} parts of the range between 0 and 1, not {config.axes}")
    if not 2 <= config.elites <= config.samples:
        raise UserError(f"elites must lie between 2 and the {config.samples} samples, not {config.elites}")
    mode = torch.empty(num_states, len(modes), device=device)
    for index, share in enumerate(shares):  # number by number, as above
        mode[:, index] = share / sum(shares)
    if usable is not None:
        left = mode * usable
        total = left.sum(-1, keepdim=True)
        mode = torch.where(total > 0, left / total.clamp(min=1e-9), mode)
    return Sampler(config, mode, layout=layout)


def draw(sampler: Sampler, samples: int, generator: torch.Generator) -> Tensor:
    """Draw actions (B, S, A) for each state."""
    config, layout, batch = sampler.config, sampler.layout, len(sampler.mode)
    axes, turns, device = len(layout.axes), len(layout.turns), sampler.mode.device
    noise = torch.randn(batch, samples, layout.motion, device=device, generator=generator)
    flat = torch.rand(batch, samples, turns + axes, device=device, generator=generator)
    flags = draw_mode(sampler.mode, samples, generator)
    if sampler.mean is None or sampler.std is None:
        turn = noise[..., axes:].unflatten(-1, (turns, 2))  # an isotropic normal has no preferred direction
        motion = flat[..., turns:] * 2 - 1
        parts = [motion[..., i] * reach for i, reach in enumerate(sampler.reach)]
        if config.max_turn < torch.pi:
            angle = (flat[..., :turns] * 2 - 1) * config.max_turn
            turn = torch.stack((angle.sin(), angle.cos()), -1)
    else:
        # Gathered, not multiplied by one-hot rows: products of matrices have fewer bits on a GPU.
        chosen = one_hot_modes(flags).argmax(-1, keepdim=True).expand(-1, -1, layout.motion)  # (B, S, D)
        point = sampler.mean.gather(1, chosen) + sampler.std.gather(1, chosen) * noise
        parts = [point[..., i].clamp(-reach, reach) for i, reach in enumerate(sampler.reach)]
        turn = point[..., axes:].unflatten(-1, (turns, 2))
    return torch.cat((*(part.unsqueeze(-1) for part in parts), unit(turn, config.max_turn).flatten(-2), flags), -1)


def draw_mode(shares: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Draw S modes by their shares (B, M); return the flags (B, S, M - 1) of the commands."""
    # Systematic sampling: one random offset, then steps of 1 / S through the cumulative shares.
    offset = torch.rand(len(shares), 1, device=shares.device, generator=generator)
    place = ((torch.arange(samples, device=shares.device) + offset) / samples).clamp(max=1 - 1e-6)  # (B, S)
    # Where the commands begin, (B, 1, M - 1); summed from the end, so that a share of 0 gives no sample.
    edges = 1 - shares[:, 1:].flip(-1).cumsum(-1).flip(-1).unsqueeze(1)
    passed = (place.unsqueeze(-1) >= edges).float()  # (B, S, M - 1)
    if not passed.shape[-1]:
        return passed
    return passed - torch.nn.functional.pad(passed[..., 1:], (0, 1))


def one_hot_modes(flags: Tensor) -> Tensor:
    """Turn the flags (..., M - 1) of commands into one-hot modes (..., M)."""
    return torch.cat((1 - flags.sum(-1, keepdim=True), flags), -1)


def unit(turn: Tensor, max_turn: float) -> Tensor:
    """Put points (..., 2) of the plane on the unit circle, as sine and cosine of at most `max_turn`."""
    if max_turn < torch.pi:
        angle = torch.atan2(turn[..., 0], turn[..., 1]).clamp(-max_turn, max_turn)
        return torch.stack((angle.sin(), angle.cos()), -1)
    return torch.nn.functional.normalize(turn, dim=-1)


def refit(first: Sampler, action: Tensor, score: Tensor) -> Sampler:
    """Fit the next round's sampler to the elites of each mode among actions (B, S, A) with scores (B, S)."""
    config, size, modes = first.config, first.layout.motion, len(first.layout.modes)
    flags, motion = action[..., size:], action[..., :size]
    is_mode = one_hot_modes(flags).transpose(1, 2) > 0.5  # (B, M, S)
    best, place = score.unsqueeze(1).masked_fill(~is_mode, -torch.inf).topk(config.elites, dim=-1)  # (B, M, E)
    is_elite = (best > -torch.inf).unsqueeze(-1).float()  # a mode may have fewer samples than elites
    every = motion.unsqueeze(1).expand(-1, modes, -1, -1)  # (B, M, S, D)
    elite = every.gather(2, place.unsqueeze(-1).expand(-1, -1, -1, size))  # (B, M, E, D)
    count = is_elite.sum(2)  # (B, M, 1)
    mean = (elite * is_elite).sum(2) / count.clamp(min=1)
    variance = ((elite - mean.unsqueeze(2)).square() * is_elite).sum(2) / (count - 1).clamp(min=1)
    # One sample shows no spread, so its mode keeps the spread of the whole range.
    std = torch.where(count > 1, variance.sqrt(), WHOLE_SPREAD).clamp(min=config.spread)
    return Sampler(config, first.mode, mean, std, first.layout)


def maximize(
    score: Callable[[Tensor], Tensor],
    num_states: int,
    config: CEMConfig,
    generator: torch.Generator,
    usable: Tensor | None = None,
    layout: ActionConfig | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the action with the highest score in each state.

    Args:
        score: Maps actions (B, S, A) to scores (B, S).
        num_states: B.
        config: Settings of the search.
        generator: Source of the samples; they are made on its device.
        usable: Modes (B, M) to try in each state; None for all.
        layout: Of an action; None for that of the arm.

    Returns:
        The best action (B, A) of all rounds and its score (B,).
    """
    first = sampler = first_sampler(num_states, config, generator.device, usable, layout)
    best: tuple[Tensor, Tensor] | None = None
    for round_number in range(config.iterations):
        action = draw(sampler, config.samples, generator)
        value = score(action)
        top, index = value.max(-1)
        found = action.gather(1, index[:, None, None].expand(-1, 1, action.shape[-1])).squeeze(1)
        if best is not None:
            is_better = top > best[1]
            found = torch.where(is_better.unsqueeze(-1), found, best[0])
            top = torch.where(is_better, top, best[1])
        best = found, top
        if round_number + 1 < config.iterations:
            sampler = refit(first, action, value)
    assert best is not None  # there is at least one round
    return best
