"""What acts in the bins: published weights, scripts, and both side by side in one batch of worlds."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from polytask.mtopt.config.learning import LearnerConfig
from polytask.mtopt.config.world import ScriptConfig
from polytask.mtopt.learning.bellman import best_action
from polytask.mtopt.learning.cem import draw, first_sampler
from polytask.mtopt.learning.weights import Weights
from polytask.mtopt.world import BinWorld, Observation, Policy, ScriptedPick, ScriptedPlace


class LearnedPolicy:
    """Takes the action that the weights like best, with some chance added while collecting."""

    def __init__(
        self, weights: Weights, config: LearnerConfig, seed: int, epsilon: float = 0.0, noise: float = 0.0
    ) -> None:
        """Take weights into use.

        Args:
            weights: On the device of the worlds.
            config: How actions are searched.
            seed: Of all chance.
            epsilon: Chance of a random action.
            noise: Standard deviation of what is added to the translation.
        """
        self.name = weights.policy
        self.weights, self.cem = weights, config.bellman.cem
        self.epsilon, self.noise = epsilon, noise
        device = next(weights.q1.parameters()).device
        self.generator = torch.Generator(device).manual_seed(seed)

    def reset(self, mask: Tensor | None = None) -> None:
        """Do nothing: it remembers nothing."""

    def act(self, observation: Observation, task: Tensor | None = None) -> Tensor:
        """Return actions (N, 8) for tasks (N,)."""
        assert task is not None
        generator, count = self.generator, len(task)
        action, _ = best_action(self.weights.q1, observation, task, self.cem, generator)
        if self.epsilon > 0:
            random = draw(first_sampler(count, self.cem, generator.device), 1, generator).squeeze(1)
            is_random = torch.rand(count, 1, device=generator.device, generator=generator) < self.epsilon
            action = torch.where(is_random, random, action)
        if self.noise > 0:
            shake = self.noise * torch.randn(count, 3, device=generator.device, generator=generator)
            shake[:, 2] *= self.cem.axes[2]  # no exploring where the search does not go
            action = torch.cat(((action[:, :3] + shake).clamp(-1, 1), action[:, 3:]), -1)
        return action


class MixedPolicy:
    """A script in some worlds, a learned policy in the others, each told which task to act for."""

    name = "mixed"

    def __init__(self, script: Policy, learned: Policy | None, is_scripted: Tensor, acts_as: Tensor) -> None:
        """Divide the worlds.

        Args:
            script: Acts where `is_scripted` (N,) holds.
            learned: Acts elsewhere; None where there is no elsewhere.
            is_scripted: (N,)
            acts_as: (N,) task that the learned policy is told.
        """
        self.script, self.learned = script, learned
        self.is_scripted, self.acts_as = is_scripted, acts_as

    def reset(self, mask: Tensor | None = None) -> None:
        """Start new episodes."""
        self.script.reset(mask)
        if self.learned is not None:
            self.learned.reset(mask)

    def act(self, observation: Observation, task: Tensor | None = None) -> Tensor:
        """Return actions (N, 8)."""
        action = self.script.act(observation, task)
        if self.learned is None:
            return action
        return torch.where(self.is_scripted[:, None], action, self.learned.act(observation, self.acts_as))


def script_of(skill: str, world: BinWorld, config: ScriptConfig) -> ScriptedPick | ScriptedPlace:
    """Make the script of a skill: lifting is picking, everything else lets go of what is held."""
    return ScriptedPick(world, config) if skill == "lift" else ScriptedPlace(world, config)


def indices(tasks: Sequence[str], known: Sequence[str], device: torch.device) -> Tensor:
    """Look tasks up. (N,)"""
    return torch.tensor([known.index(task) for task in tasks], device=device)
