"""Maximize a score over actions by the cross-entropy method, for a whole batch of states at once.

An action has parts of three kinds, and each is drawn so that a robot can take the action:

- close, open and terminate: one of four *modes* - move only, close, open, terminate. An action that closes and opens at
  once is never scored, because no data shows its value. Modes are drawn by systematic sampling with the same shares in
  every round, so that each mode with a share of one sample or more is tried in every state. A mode that a state cannot
  use, such as opening an open hand, gives its share to the others;
- translation: uniform in [-1, 1] at first, then normal around the elites, cut to the box;
- turn: drawn as a point of the plane and put on the unit circle, so that its sine and cosine belong to one angle.

Every mode is searched by itself: each round after the first draws a mode's samples around the best ones of that mode.
One normal distribution for all modes would follow the mode whose values are high everywhere (moving), and miss a narrow
peak of another (closing, above an object). The best action of all rounds is the result.

Differences from QT-Opt: there all parts are one normal distribution. With sparse rewards its search ends in
combinations that no episode contains, and whose values are therefore arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.errors import UserError
from polytask.mtopt.config.learning import MODES, CEMConfig
from polytask.mtopt.config.world import NO_EFFECT
from polytask.mtopt.records import ACTION_DIM

TRANSLATION, TURN = 3, 2  # numbers of each part
WHOLE_SPREAD = 3**-0.5  # standard deviation of a uniform number in [-1, 1]


@dataclass
class Sampler:
    """The distribution that the next round is drawn from."""

    config: CEMConfig
    mode: Tensor  # (B, 4) shares
    mean: Tensor | None = None  # (B, 4, 5) of translation and turn in each mode; None: the whole range
    std: Tensor | None = None  # (B, 4, 5)


def usable_modes(closed: Tensor, config: CEMConfig) -> Tensor | None:
    """Return which modes (B, 4) have an effect on hands (B,) whose gripper is closed (1) or not; None for all."""
    if not config.masked:
        return None
    is_closed = closed > 0.5
    # Filled column by column: a tensor made from a list is copied to the device, and the host waits for the copy.
    usable = torch.ones(len(closed), len(MODES), dtype=torch.bool, device=closed.device)
    for name, idle_when_closed in NO_EFFECT.items():
        usable[:, MODES.index(name)] = ~is_closed if idle_when_closed else is_closed
    return usable


def first_sampler(num_states: int, config: CEMConfig, device: torch.device, usable: Tensor | None = None) -> Sampler:
    """Start from the whole range of actions.

    Args:
        num_states: B.
        config: Settings of the search.
        device: Where to draw.
        usable: Modes (B, 4) to try in each state; None for all. A state without any gets all.

    Raises:
        UserError: If the shares of the modes, the axes or the number of elites are not valid.
    """
    shares = config.modes
    if len(shares) != len(MODES) or min(shares) < 0 or sum(shares) <= 0:
        raise UserError(f"modes must be {len(MODES)} shares ({', '.join(MODES)}) with a positive sum, not {shares}")
    if len(config.axes) != TRANSLATION or not all(0 <= reach <= 1 for reach in config.axes):
        raise UserError(f"axes must be {TRANSLATION} parts of the range between 0 and 1, not {config.axes}")
    if not 2 <= config.elites <= config.samples:
        raise UserError(f"elites must lie between 2 and the {config.samples} samples, not {config.elites}")
    mode = torch.empty(num_states, len(MODES), device=device)
    for index, share in enumerate(shares):  # number by number, as above
        mode[:, index] = share / sum(shares)
    if usable is not None:
        left = mode * usable
        total = left.sum(-1, keepdim=True)
        mode = torch.where(total > 0, left / total.clamp(min=1e-9), mode)
    return Sampler(config, mode)


def draw(sampler: Sampler, samples: int, generator: torch.Generator) -> Tensor:
    """Draw actions (B, S, 8) for each state."""
    config, batch = sampler.config, len(sampler.mode)
    device = sampler.mode.device
    noise = torch.randn(batch, samples, TRANSLATION + TURN, device=device, generator=generator)
    flat = torch.rand(batch, samples, 1 + TRANSLATION, device=device, generator=generator)
    flags = draw_mode(sampler.mode, samples, generator)
    if sampler.mean is None or sampler.std is None:
        turn = noise[..., TRANSLATION:]  # an isotropic normal has no preferred direction
        translation = flat[..., 1:] * 2 - 1
        translation = torch.stack([translation[..., i] * reach for i, reach in enumerate(config.axes)], -1)
        if config.max_turn < torch.pi:
            angle = (flat[..., 0] * 2 - 1) * config.max_turn
            turn = torch.stack((angle.sin(), angle.cos()), -1)
    else:
        # Gathered, not multiplied by one-hot rows: products of matrices have fewer bits on a GPU.
        chosen = one_hot_modes(flags).argmax(-1, keepdim=True).expand(-1, -1, TRANSLATION + TURN)  # (B, S, 5)
        point = sampler.mean.gather(1, chosen) + sampler.std.gather(1, chosen) * noise
        translation = torch.stack([point[..., i].clamp(-reach, reach) for i, reach in enumerate(config.axes)], -1)
        turn = point[..., TRANSLATION:]
    return torch.cat((translation, unit(turn, config.max_turn), flags), -1)


def draw_mode(shares: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Draw S modes by their shares (B, 4); return the flags (B, S, 3) close, open and terminate."""
    # Systematic sampling: one random offset, then steps of 1 / S through the cumulative shares.
    offset = torch.rand(len(shares), 1, device=shares.device, generator=generator)
    place = ((torch.arange(samples, device=shares.device) + offset) / samples).clamp(max=1 - 1e-6)  # (B, S)
    # Where close, open and terminate begin, (B, 1, 3); summed from the end, so that a share of 0 gives no sample.
    edges = 1 - shares[:, 1:].flip(-1).cumsum(-1).flip(-1).unsqueeze(1)
    passed = (place.unsqueeze(-1) >= edges).float()  # (B, S, 3)
    return passed - torch.nn.functional.pad(passed[..., 1:], (0, 1))


def one_hot_modes(flags: Tensor) -> Tensor:
    """Turn the flags (..., 3) close, open and terminate into one-hot modes (..., 4)."""
    return torch.cat((1 - flags.sum(-1, keepdim=True), flags), -1)


def unit(turn: Tensor, max_turn: float) -> Tensor:
    """Put points (..., 2) of the plane on the unit circle, as sine and cosine of at most `max_turn`."""
    if max_turn < torch.pi:
        angle = torch.atan2(turn[..., 0], turn[..., 1]).clamp(-max_turn, max_turn)
        return torch.stack((angle.sin(), angle.cos()), -1)
    return torch.nn.functional.normalize(turn, dim=-1)


def refit(first: Sampler, action: Tensor, score: Tensor) -> Sampler:
    """Fit the next round's sampler to the elites of each mode among actions (B, S, 8) with scores (B, S)."""
    config, size = first.config, TRANSLATION + TURN
    flags, motion = action[..., size:], action[..., :size]
    is_mode = one_hot_modes(flags).transpose(1, 2) > 0.5  # (B, 4, S)
    best, place = score.unsqueeze(1).masked_fill(~is_mode, -torch.inf).topk(config.elites, dim=-1)  # (B, 4, E)
    is_elite = (best > -torch.inf).unsqueeze(-1).float()  # a mode may have fewer samples than elites
    every = motion.unsqueeze(1).expand(-1, len(MODES), -1, -1)  # (B, 4, S, 5)
    elite = every.gather(2, place.unsqueeze(-1).expand(-1, -1, -1, size))  # (B, 4, E, 5)
    count = is_elite.sum(2)  # (B, 4, 1)
    mean = (elite * is_elite).sum(2) / count.clamp(min=1)
    variance = ((elite - mean.unsqueeze(2)).square() * is_elite).sum(2) / (count - 1).clamp(min=1)
    # One sample shows no spread, so its mode keeps the spread of the whole range.
    std = torch.where(count > 1, variance.sqrt(), WHOLE_SPREAD).clamp(min=config.spread)
    return Sampler(config, first.mode, mean, std)


def maximize(
    score: Callable[[Tensor], Tensor],
    num_states: int,
    config: CEMConfig,
    generator: torch.Generator,
    usable: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the action with the highest score in each state.

    Args:
        score: Maps actions (B, S, 8) to scores (B, S).
        num_states: B.
        config: Settings of the search.
        generator: Source of the samples; they are made on its device.
        usable: Modes (B, 4) to try in each state; None for all.

    Returns:
        The best action (B, 8) of all rounds and its score (B,).
    """
    first = sampler = first_sampler(num_states, config, generator.device, usable)
    best: tuple[Tensor, Tensor] | None = None
    for round_number in range(config.iterations):
        action = draw(sampler, config.samples, generator)
        value = score(action)
        top, index = value.max(-1)
        found = action.gather(1, index[:, None, None].expand(-1, 1, ACTION_DIM)).squeeze(1)
        if best is not None:
            is_better = top > best[1]
            found = torch.where(is_better.unsqueeze(-1), found, best[0])
            top = torch.where(is_better, top, best[1])
        best = found, top
        if round_number + 1 < config.iterations:
            sampler = refit(first, action, value)
    assert best is not None  # there is at least one round
    return best
