"""Policies that see nothing: what they reach from the evaluator's starts, a learned policy has to beat."""

from __future__ import annotations

import torch
from torch import Tensor

from polytask.mtopt.config.action import END, ActionConfig
from polytask.mtopt.config.learning import CEMConfig
from polytask.mtopt.learning.cem import draw, first_sampler, usable_modes
from polytask.mtopt.policy_names import SCRIPTED
from polytask.mtopt.records import Observation

RANDOM = "random"
RANDOM_SCRIPT = f"{SCRIPTED}-random"  # where a world has no script for a skill


def words(commands: list[str]) -> tuple[str, ...]:
    """Return the commands of an action as people read them."""
    return tuple("end" if name == END else name for name in commands)


def constant_policies(layout: ActionConfig) -> dict[str, int]:
    """Return the names of the constant policies, with the entry of the action that is one."""
    return {f"{word} now": layout.motion + number for number, word in enumerate(words(layout.commands))}


def simple_policies(layout: ActionConfig) -> tuple[str, ...]:
    """Return the names of all simple policies."""
    return (*constant_policies(layout), RANDOM)


class ConstantPolicy:
    """Gives one command at every step, where the hand is."""

    def __init__(self, name: str, layout: ActionConfig | None = None) -> None:
        """Choose the command by the name of the policy; the layout is the arm's, unless it is given."""
        self.name, self._layout = name, layout or ActionConfig()
        self._entry = constant_policies(self._layout)[name]

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: the policy has no memory."""

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, A)."""
        action = torch.zeros(len(task), self._layout.size, device=task.device)
        for name in self._layout.turns:
            action[:, self._layout.turn(name) + 1] = 1.0  # the cosine of no turn
        action[:, self._entry] = 1.0
        return action


class RandomPolicy:
    """Draws actions as the first round of the search does."""

    def __init__(
        self, cem: CEMConfig, seed: int, device: torch.device, layout: ActionConfig | None = None, name: str = RANDOM
    ) -> None:
        """Seed the draws."""
        self.cem, self.generator, self._layout = cem, torch.Generator(device).manual_seed(seed), layout
        self.name = name

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: the policy has no memory."""

    def act(self, observation: Observation, task: Tensor) -> Tensor:
        """Return actions (N, A)."""
        usable = usable_modes(observation.closed, self.cem, self._layout)
        sampler = first_sampler(len(task), self.cem, self.generator.device, usable, self._layout)
        return draw(sampler, 1, self.generator).squeeze(1)
