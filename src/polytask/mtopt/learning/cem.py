"""Maximize a score over actions by the cross-entropy method, for a whole batch of states at once.

Each round draws samples, keeps the best few and draws the next round around them; the best of the last round is the
result. An action has parts of three kinds, and each is drawn so that a robot can take the action:

- translation: uniform in [-1, 1] at first, then normal around the elites, cut to the box;
- turn: drawn as a point of the plane and put on the unit circle, so that its sine and cosine belong to one angle;
- close, open and terminate: one of four *modes* - move only, close, open, terminate - drawn from a table of
  probabilities, which the elites' shares replace in the next round. An action that closes and opens at once is never
  scored, because no data shows its value. Modes are drawn by systematic sampling, so that each mode with a share of one
  sample or more is tried in every state.

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
from polytask.mtopt.records import ACTION_DIM

TRANSLATION, TURN = 3, 2  # numbers of each part


@dataclass
class Sampler:
    """The distribution that the next round is drawn from."""

    config: CEMConfig
    mode: Tensor  # (B, 4) shares
    mean: Tensor | None = None  # (B, 1, 5) of translation and turn; None: the whole range
    std: Tensor | None = None  # (B, 1, 5)


def first_sampler(num_states: int, config: CEMConfig, device: torch.device) -> Sampler:
    """Start from the whole range of actions.

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
    # Filled number by number: a tensor made from a list is copied to the device, and the host waits for the copy.
    mode = torch.empty(num_states, len(MODES), device=device)
    for index, share in enumerate(shares):
        mode[:, index] = share / sum(shares)
    return Sampler(config, mode)


def draw(sampler: Sampler, samples: int, generator: torch.Generator) -> Tensor:
    """Draw actions (B, S, 8) for each state."""
    config, batch = sampler.config, len(sampler.mode)
    device = sampler.mode.device
    noise = torch.randn(batch, samples, TRANSLATION + TURN, device=device, generator=generator)
    if sampler.mean is None or sampler.std is None:
        turn = noise[..., TRANSLATION:]  # an isotropic normal has no preferred direction
        flat = torch.rand(batch, samples, 2 + TRANSLATION, device=device, generator=generator)
        translation = flat[..., 2:] * 2 - 1
        translation = torch.stack([translation[..., i] * reach for i, reach in enumerate(config.axes)], -1)
        if config.max_turn < torch.pi:
            angle = (flat[..., 0] * 2 - 1) * config.max_turn
            turn = torch.stack((angle.sin(), angle.cos()), -1)
    else:
        point = sampler.mean + sampler.std * noise
        translation = torch.stack([point[..., i].clamp(-reach, reach) for i, reach in enumerate(config.axes)], -1)
        turn = point[..., TRANSLATION:]
    mode = draw_mode(sampler.mode, samples, generator)
    return torch.cat((translation, unit(turn, config.max_turn), mode), -1)


def draw_mode(shares: Tensor, samples: int, generator: torch.Generator) -> Tensor:
    """Draw S modes by their shares (B, 4); return the flags (B, S, 3) close, open and terminate."""
    # Systematic sampling: one random offset, then steps of 1 / S through the cumulative shares.
    offset = torch.rand(len(shares), 1, device=shares.device, generator=generator)
    place = ((torch.arange(samples, device=shares.device) + offset) / samples).clamp(max=1 - 1e-6)  # (B, S)
    # Where close, open and terminate begin, (B, 1, 3); summed from the end, so that a share of 0 gives no sample.
    edges = 1 - shares[:, 1:].flip(-1).cumsum(-1).flip(-1).unsqueeze(1)
    passed = (place.unsqueeze(-1) >= edges).float()  # (B, S, 3)
    return passed - torch.nn.functional.pad(passed[..., 1:], (0, 1))


def unit(turn: Tensor, max_turn: float) -> Tensor:
    """Put points (..., 2) of the plane on the unit circle, as sine and cosine of at most `max_turn`."""
    if max_turn < torch.pi:
        angle = torch.atan2(turn[..., 0], turn[..., 1]).clamp(-max_turn, max_turn)
        return torch.stack((angle.sin(), angle.cos()), -1)
    return torch.nn.functional.normalize(turn, dim=-1)


def refit(first: Sampler, action: Tensor, score: Tensor) -> Sampler:
    """Fit the next round's sampler to the elites of actions (B, S, 8) with scores (B, S)."""
    config = first.config
    chosen = score.topk(config.elites, dim=-1).indices.unsqueeze(-1).expand(-1, -1, ACTION_DIM)
    elite = action.gather(1, chosen)  # (B, E, 8)
    continuous, flags = elite[..., : TRANSLATION + TURN], elite[..., TRANSLATION + TURN :]
    share = flags.mean(1)
    share = torch.cat((1 - share.sum(-1, keepdim=True), share), -1)  # (B, 4)
    return Sampler(
        config,
        torch.lerp(share, first.mode, config.keep),
        continuous.mean(1, keepdim=True),
        continuous.std(1, keepdim=True).clamp(min=config.spread),
    )


def maximize(
    score: Callable[[Tensor], Tensor], num_states: int, config: CEMConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Find the action with the highest score in each state.

    Args:
        score: Maps actions (B, S, 8) to scores (B, S).
        num_states: B.
        config: Settings of the search.
        generator: Source of the samples; they are made on its device.

    Returns:
        The best action (B, 8) of the last round and its score (B,).
    """
    first = sampler = first_sampler(num_states, config, generator.device)
    for _ in range(config.iterations - 1):
        action = draw(sampler, config.samples, generator)
        sampler = refit(first, action, score(action))
    action = draw(sampler, config.samples, generator)
    value, index = score(action).max(-1)
    return action.gather(1, index[:, None, None].expand(-1, 1, ACTION_DIM)).squeeze(1), value
