"""Policies that see nothing: what they reach from the evaluator's starts, a learned policy has to beat."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.learning.cem import draw, first_sampler, usable_modes
from polytask.mtopt.records import ACTION_DIM, Observation

# Name -> entry of the action that is one.
CONSTANT = {"open now": 6, "close now": 5, "end now": 7}
RANDOM = "random"
SIMPLE = (*CONSTANT, RANDOM)


class ConstantPolicy:
    """Gives one command at every step, where the hand is."""

    def __init__(self, name: str) -> None:
        """Choose the command by its name in `CONSTANT`."""
        self.name, self._entry = name, CONSTANT[name]

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: the policy has no memory."""

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, 8)."""
        action = torch.zeros(len(task), ACTION_DIM, device=task.device)
        action[:, 4] = 1.0  # the cosine of no turn
        action[:, self._entry] = 1.0
        return action


class RandomPolicy:
    """Draws actions as the first round of the search does."""

    name = RANDOM

    def __init__(self, cem: CEMConfig, seed: int, device: torch.device) -> None:
        """Seed the draws."""
        self.cem, self.generator = cem, torch.Generator(device).manual_seed(seed)

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: the policy has no memory."""

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, 8)."""
        usable = usable_modes(observation.closed, self.cem)
        return draw(first_sampler(len(task), self.cem, self.generator.device, usable), 1, self.generator).squeeze(1)
