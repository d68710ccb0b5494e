"""Choose actions by CEM on a Q-network, with or without exploration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from polytask.mtopt.config.action import ActionConfig
from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.learning.cem import draw, first_sampler, maximize, usable_modes
from polytask.mtopt.networks import QNetwork
from polytask.mtopt.records import Observation


@dataclass(frozen=True)
class Exploration:
    """How far actions differ from the best ones while collecting."""

    epsilon: float = 0.0  # chance of a random action
    noise: float = 0.0  # standard deviation of the noise on the translation


@torch.no_grad()
def best_action(
    q: QNetwork, observation: Observation, task: Tensor, config: CEMConfig, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return the action (B, A) with the highest value of `q` in each state, and its logit (B,)."""
    image_map = q.image_part(observation.image)

    def score(action: Tensor) -> Tensor:
        # Logits rank actions as probabilities do, and still differ where the sigmoid is flat.
        return q.action_part(image_map, observation.closed, observation.height, task, action, observation.pose)

    usable = usable_modes(observation.closed, config, q.action)
    return maximize(score, len(task), config, generator, usable, q.action)


def explore(
    action: Tensor,
    closed: Tensor,
    exploration: Exploration,
    config: CEMConfig,
    generator: torch.Generator,
    layout: ActionConfig | None = None,
) -> Tensor:
    """Replace some actions (N, A) of hands (N,) that are closed or not by random ones, and add noise to all.

    The noise has the same size on all axes, measured in the part of each that CEM searches, and stays within it.
    """
    count, device = len(action), generator.device
    sampler = first_sampler(count, config, device, usable_modes(closed, config, layout), layout)
    if exploration.epsilon > 0:
        random = draw(sampler, 1, generator).squeeze(1)
        is_random = torch.rand(count, 1, device=device, generator=generator) < exploration.epsilon
        action = torch.where(is_random, random, action)
    if exploration.noise > 0:
        size = len(sampler.reach)
        shake = exploration.noise * torch.randn(count, size, device=device, generator=generator)
        axes = [
            (action[:, axis] + part * shake[:, axis]).clamp(-part, part).unsqueeze(-1)
            for axis, part in enumerate(sampler.reach)
        ]
        action = torch.cat((*axes, action[:, size:]), -1)
    return action
